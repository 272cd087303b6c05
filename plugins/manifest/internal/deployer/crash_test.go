package deployer_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// TestSavedBeforeCreated lets the provider status be refused, and then the job be cut off after each request in turn.
// Rule (architecture.md#what-always-holds): 6. What a plugin reports as managed is in the provider status before the
// plugin continues.
func TestSavedBeforeCreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil), w.configMap("b", nil)))
	refused := w.CallOf(item)
	refused.OnSave = func(json.RawMessage) error { return errors.New("refused") }
	if result := w.Plugin.Reconcile(t.Context(), refused); result.Failed == nil {
		t.Fatalf("expected a failure, but found: %s", result)
	}
	if got := w.Requests.Take(); len(got) > 0 {
		t.Errorf("expected no request to the target before the provider status is saved, but found %v", got)
	}

	w.Requests.Fail(func(r *http.Request) error {
		if r.Method == http.MethodPost {
			return errors.New("cut off")
		}
		return nil
	})
	w.MustFail(w.Do(plugintest.Reconcile, item), nil, "cannot reach target cluster", "cut off")
	if diff := cmp.Diff([]string{"ConfigMap a", "ConfigMap b"}, w.managed(item)); diff != "" {
		t.Errorf("saved before anything was created: -want +got:\n%s", diff)
	}
	w.Requests.Undisturbed()
	// The plugin has crashed and was started again.
	w.Restart()
	w.SetConfig(item, config(w.configMap("b", nil)))
	w.mustSucceed(item)
	if diff := cmp.Diff([]string{"ConfigMap b"}, w.managed(item)); diff != "" {
		t.Errorf("managed: -want +got:\n%s", diff)
	}
}

// TestOlderManifestAfterACrash goes back to an older manifest after a newer one was written but never noted.
func TestOlderManifestAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	older := config(w.configMap("a", object{"x": "1"}))
	item := w.item(older)
	w.mustSucceed(item)
	w.SetConfig(item, config(w.configMap("a", object{"x": "1", "y": "2"})))
	const result = 3 // after the status is saved and the object is written
	w.Disturb(plugintest.Reconcile, item, result, plugintest.Killed)
	if diff := cmp.Diff(object{"x": "1", "y": "2"}, w.data("a")); diff != "" {
		t.Fatalf("until the plugin was killed: -want +got:\n%s", diff)
	}
	w.SetConfig(item, older)
	w.mustSucceed(item)
	if diff := cmp.Diff(object{"x": "1"}, w.data("a")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
