package deployer_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// TestSavedBeforeCreated lets the provider status be refused, and then the job be cut off after each request in turn.
func TestSavedBeforeCreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil), w.configMap("b", nil)))
	refused := sdktest.Call{DeployItem: item, Target: w.target, OnSave: func(json.RawMessage) error { return errors.New("refused") }}
	if result := w.plugin.Reconcile(t.Context(), refused); result.Failed == nil {
		t.Fatalf("expected a failure, but found: %s", result)
	}
	if got := w.requests.take(); len(got) > 0 {
		t.Errorf("expected no request to the target before the provider status is saved, but found %v", got)
	}

	var saved []string
	call := sdktest.Call{DeployItem: item, Target: w.target, OnSave: func(document json.RawMessage) error {
		saved = managedIn(t, document)
		item.Status.ProviderStatus = &runtime.RawExtension{Raw: document}
		return nil
	}}
	w.requests.failWith(func(r *http.Request) error {
		if r.Method == http.MethodPost {
			return errors.New("cut off")
		}
		return nil
	})
	w.mustFail(w.plugin.Reconcile(t.Context(), call), nil, "cannot reach target cluster", "cut off")
	if diff := cmp.Diff([]string{"ConfigMap a", "ConfigMap b"}, saved); diff != "" {
		t.Errorf("saved before anything was created: -want +got:\n%s", diff)
	}
	w.requests.failWith(nil)
	// The plugin has crashed and was started again.
	w.plugin = w.newPlugin()
	w.setConfig(item, config(w.configMap("b", nil)))
	w.mustSucceed(item)
	if diff := cmp.Diff([]string{"ConfigMap b"}, w.managed(item)); diff != "" {
		t.Errorf("managed: -want +got:\n%s", diff)
	}
}

// TestCrashBetweenWriteAndNote goes back to an older manifest after a newer one was written but never noted.
func TestCrashBetweenWriteAndNote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", object{"x": "1"})))
	w.mustSucceed(item)

	newer := item.DeepCopy()
	w.setConfig(newer, config(w.configMap("a", object{"x": "1", "y": "2"})))
	var saved json.RawMessage
	w.plugin.Reconcile(t.Context(), sdktest.Call{DeployItem: newer, Target: w.target, OnSave: func(d json.RawMessage) error {
		saved = d
		return nil
	}})
	if saved == nil {
		t.Fatal("expected the digest of the older manifest to be struck off before the newer one is written")
	}
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: saved}
	w.mustSucceed(item)
	if diff := cmp.Diff(object{"x": "1"}, w.mustGet(configMaps, "a").Object["data"]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCutOffAtEachRequest ends an update at each of its requests in turn, which the target still carries out, and goes on with a
// plugin that was started again and knows only what was saved.
func TestCutOffAtEachRequest(t *testing.T) {
	t.Parallel()
	const requests = 5 // GET and PUT of changed, POST of added, DELETE and GET of removed
	for n := 1; n <= requests; n++ {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(config(w.configMap("removed", nil), w.configMap("changed", object{"a": "1"})))
			w.mustSucceed(item)
			w.requests.take()
			w.setConfig(item, config(w.configMap("changed", object{"b": "2"}), w.configMap("added", nil)))

			var seen atomic.Int64
			w.requests.loseWith(func(*http.Request) error {
				if seen.Add(1) >= int64(n) {
					return errors.New("cut off")
				}
				return nil
			})
			call := sdktest.Call{DeployItem: item, Target: w.target, OnSave: func(document json.RawMessage) error {
				item.Status.ProviderStatus = &runtime.RawExtension{Raw: document}
				return nil
			}}
			if result := w.plugin.Reconcile(t.Context(), call); result.Failed == nil {
				t.Fatalf("expected a failure, but found: %s", result)
			}
			w.requests.loseWith(nil)

			w.plugin = w.newPlugin()
			w.mustSucceed(item)
			if diff := cmp.Diff([]string{"ConfigMap changed", "ConfigMap added"}, w.managed(item)); diff != "" {
				t.Errorf("managed: -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(object{"b": "2"}, w.mustGet(configMaps, "changed").Object["data"]); diff != "" {
				t.Errorf("changed: -want +got:\n%s", diff)
			}
			if w.get(configMaps, "removed") != nil || w.get(configMaps, "added") == nil {
				t.Error("expected the removed object to be gone and the added one to be there")
			}
		})
	}
}

func TestFailedApplyForgetsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("old", nil)))
	w.mustSucceed(item)
	w.setConfig(item, config(w.configMap("fine", nil), w.configMap("Not.A.Name", nil), w.configMap("Bad_Name", nil)))
	w.mustFail(w.reconcile(item), configurationProblem, "apply ConfigMap "+w.namespace+"/Not.A.Name", "Bad_Name")
	if w.get(configMaps, "old") == nil || w.get(configMaps, "fine") == nil {
		t.Error("expected the old object to stay and the good one to be created")
	}
	want := []string{"ConfigMap Bad_Name", "ConfigMap Not.A.Name", "ConfigMap fine", "ConfigMap old"}
	sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	if diff := cmp.Diff(want, w.managed(item), sorted); diff != "" {
		t.Errorf("managed: -want +got:\n%s", diff)
	}
	w.setConfig(item, config(w.configMap("fine", nil)))
	w.mustSucceed(item)
	if diff := cmp.Diff([]string{"ConfigMap fine"}, w.managed(item)); diff != "" {
		t.Errorf("managed after the repair: -want +got:\n%s", diff)
	}
}
