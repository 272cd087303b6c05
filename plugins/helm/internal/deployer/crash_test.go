package deployer_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

var errKilled = errors.New("the plugin was killed")

// isStorageWrite tells whether a request changes what Helm stores about a release.
func isStorageWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/secrets") &&
		(r.Method == http.MethodPost || strings.Contains(r.URL.Path, "sh.helm.release"))
}

// killAt has the plugin seem dead from its nth write of Helm's storage on: before that reaches the API server, or after it did. The write
// count tells how many there were.
func (w *world) killAt(n int64, after bool) (writes *atomic.Int64, dead *atomic.Bool) {
	writes, dead = &atomic.Int64{}, &atomic.Bool{}
	reached := func(r *http.Request) bool { return isStorageWrite(r) && writes.Load() >= n }
	w.requests.set(func(r *http.Request) error {
		if dead.Load() {
			return errKilled
		}
		if isStorageWrite(r) {
			writes.Add(1)
		}
		if !after && reached(r) {
			dead.Store(true)
			return errKilled
		}
		return nil
	}, func(r *http.Request) error {
		if after && reached(r) {
			dead.Store(true)
		}
		if dead.Load() {
			return errKilled
		}
		return nil
	})
	return writes, dead
}

// untilDead does something with an item in which the plugin is killed. Nothing that it says after its death arrives.
func untilDead(item *landscaper.DeployItem, dead *atomic.Bool, do func(sdktest.Call) *sdktest.Result, call sdktest.Call) {
	saved := item.Status.ProviderStatus
	call.OnMessage = func(m sdktest.Message) {
		if m.ProviderStatus != nil && !dead.Load() {
			saved = &runtime.RawExtension{Raw: m.ProviderStatus}
		}
	}
	result := do(call)
	if !dead.Load() && len(result.ProviderStatus) > 0 {
		saved = &runtime.RawExtension{Raw: result.ProviderStatus}
	}
	item.Status.ProviderStatus = saved
}

// TestCrashAtEachStorageWrite kills the plugin before and after each write of Helm's storage, in each operation. The next try ends with a
// clean release, or none after a deletion.
func TestCrashAtEachStorageWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		// prepare brings the item to where the operation begins.
		prepare func(w *world) *landscaper.DeployItem
		deletes bool
		// fails says that the operation comes to nothing by itself, such as one that is rolled back.
		fails bool
		// leaves is the object of a hook for the installation: it must have been run, whenever the plugin was killed.
		leaves string
	}{
		"install": {
			reason: "a first installation",
			prepare: func(w *world) *landscaper.DeployItem {
				return w.item(w.config(chart("plain"), object{"greeting": "two"}))
			},
		},
		"install with hooks": {
			reason: "an upgrade would not run them", leaves: "shop-hooks-announce",
			prepare: func(w *world) *landscaper.DeployItem {
				return w.item(w.config(chart("hooks"), object{"greeting": "one"}))
			},
		},
		"upgrade": {
			reason: "a second revision",
			prepare: func(w *world) *landscaper.DeployItem {
				item := w.item(w.config(chart("plain"), object{"greeting": "one"}))
				w.mustSucceed(item)
				w.setConfig(item, w.config(chart("plain"), object{"greeting": "two"}))
				return item
			},
		},
		"hooks": {
			reason: "hooks write the status again",
			prepare: func(w *world) *landscaper.DeployItem {
				item := w.item(w.config(chart("hooks"), object{"greeting": "one"}))
				w.mustSucceed(item)
				w.setConfig(item, w.config(chart("hooks"), object{"greeting": "two"}))
				return item
			},
		},
		"rollback": {
			reason: "an upgrade that fails and is rolled back", fails: true,
			prepare: func(w *world) *landscaper.DeployItem {
				atomic := object{"helmDeploymentConfig": object{"upgrade": object{"atomic": true, "timeout": "20s"}}}
				item := w.item(w.config(chart("failinghook"), object{"hook": object{"fails": "none"}}, atomic))
				w.mustSucceed(item)
				w.setConfig(item, w.config(chart("failinghook"), object{"hook": object{"fails": "reject"}}, atomic))
				return item
			},
		},
		"uninstall": {
			reason: "the end", deletes: true,
			prepare: func(w *world) *landscaper.DeployItem {
				item := w.item(w.config(chart("plain"), object{"greeting": "one"}))
				w.mustSucceed(item)
				w.setConfig(item, w.config(chart("plain"), object{"greeting": "two"}))
				w.mustSucceed(item)
				return item
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n, more := int64(1), true; more; n++ {
				for _, after := range []bool{false, true} {
					t.Run(fmt.Sprintf("write %d, after: %t", n, after), func(t *testing.T) {
						w := newWorld(t)
						item := c.prepare(w)
						writes, dead := w.killAt(n, after)
						operation := func(call sdktest.Call) *sdktest.Result { return w.plugin.Reconcile(t.Context(), call) }
						if c.deletes {
							item.Status.Phase = landscaper.DeployItemPhaseInitDelete
							operation = func(call sdktest.Call) *sdktest.Result { return w.plugin.Delete(t.Context(), call) }
						}
						untilDead(item, dead, operation, w.call(item))
						more = writes.Load() >= n
						w.requests.set(nil, nil)
						w.plugin = w.newPlugin()
						if c.deletes {
							w.mustDelete(item)
							w.mustHave()
							if got := w.names(configMaps); len(got) > 0 {
								t.Errorf("%s: after the deletion there is still %v", c.reason, got)
							}
							return
						}
						if c.fails {
							// The job fails again, but not for another operation; once the chart is mended, it goes on.
							if result := w.reconcile(item); result.Failed == nil || strings.Contains(result.String(), "another operation") {
								t.Fatalf("%s: expected the failure of the hook, but found: %s", c.reason, result)
							}
							w.setConfig(item, w.config(chart("failinghook"), object{"hook": object{"fails": "none"}, "greeting": "mended"}))
						}
						w.mustSucceed(item)
						w.mustBeClean(item)
						if c.leaves != "" && w.get(configMaps, c.leaves) == nil {
							t.Errorf("%s: there is no %s among %v", c.reason, c.leaves, w.names(configMaps))
						}
					})
				}
			}
		})
	}
}

// mustBeClean checks that the release is deployed, once, and that there is nothing left to do.
func (w *world) mustBeClean(item *landscaper.DeployItem) {
	w.Helper()
	revisions := w.revisions("shop")
	deployed := 0
	for _, r := range revisions {
		switch _, status, _ := strings.Cut(r, " "); status {
		case "deployed":
			deployed++
		case "superseded", "failed":
		default:
			w.Errorf("expected nothing in progress, but found %v", revisions)
		}
	}
	if deployed != 1 || !strings.HasSuffix(revisions[len(revisions)-1], "deployed") {
		w.Errorf("expected the newest revision to be the one that is deployed, but found %v", revisions)
	}
	before := w.names(configMaps)
	w.requests.take()
	startJob(item)
	w.mustSucceed(item)
	if writes := writesIn(w.requests.take()); len(writes) > 0 {
		w.Errorf("a job after the recovery wrote %v", writes)
	}
	if diff := cmp.Diff(before, w.names(configMaps)); diff != "" {
		w.Errorf("the objects changed without need: -before +after:\n%s", diff)
	}
	slices.Sort(before)
	if !slices.ContainsFunc(before, func(name string) bool { return strings.HasPrefix(name, "shop") }) {
		w.Errorf("expected the objects of the release, but found %v", before)
	}
}
