package apply_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// TestOthersInBetween lets somebody change or delete the object right before it is written.
// Rule (manifest.md#update-strategies): All strategies tolerate a change, a deletion or a new object right before the
// write.
func TestOthersInBetween(t *testing.T) {
	t.Parallel()
	for _, s := range managedresource.UpdateStrategies() {
		t.Run(lower(s), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for name, meddle := range map[string]func(){
				"changed": func() { w.Patch(configMaps, "changed", `{"data":{"c":null}}`) },
				"deleted": func() { w.Delete(configMaps, "deleted") },
				"replaced": func() {
					w.Delete(configMaps, "replaced")
					w.Create(configMaps, w.ConfigMap("replaced", fields{"a": "theirs"}))
				},
			} {
				m := manifest(w.ConfigMap(name, fields{"a": "1", "c": "1"}), strategy(s), force)
				w.mustRun(m)
				w.Patch(configMaps, name, `{"data":{"c":null}}`)
				once := true
				w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
					if isWrite(r) && once {
						once = false
						meddle()
					}
					return nil, nil
				})
				w.mustRun(m)
				w.Requests.Undisturbed()
				want := fields{"a": "1", "c": "1"}
				if name == "replaced" && s == managedresource.UpdateStrategyMerge {
					want["a"] = "theirs"
				}
				if diff := cmp.Diff(want, dataOf(w.MustGet(configMaps, name))); diff != "" {
					t.Errorf("%s: -want +got:\n%s", name, diff)
				}
			}
		})
	}
}

// TestOthersForEver: somebody who changes the object before each write wins, and the job says so and may try again.
func TestOthersForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.ConfigMap("a", fields{"a": "1"})))
	n := 0
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		if isWrite(r) {
			n++
			w.Patch(configMaps, "a", fmt.Sprintf(`{"data":{"theirs":"%d"}}`, n))
		}
		return nil, nil
	})
	_, err := w.run(manifest(w.ConfigMap("a", fields{"a": "2"})))
	w.mustFail(err, target.ReasonTarget, false, "ConfigMap "+w.Namespace+"/a", "others keep changing it at the same time")
}

// TestOthersCreateFirst: an object that appears when nobody expects it is treated as any that exists.
func TestOthersCreateFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	once := true
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		if isWrite(r) && once {
			once = false
			w.prepare("a", others)
		}
		return nil, nil
	})
	result := w.mustRun(manifest(w.ConfigMap("a", nil), policy(managedresource.PolicyFallback)))
	if len(result.Skipped) != 1 || !strings.Contains(result.Skipped[0].Why, "elsewhere.item") {
		t.Errorf("expected it to be left to the other item, but found %+v", result)
	}
}

// TestCreationIsForbidden: a quota forbids to create even what exists.
func TestCreationIsForbidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.prepare("a", ours)
	m := manifest(w.ConfigMap("a", fields{"c": "manifest"}))
	for _, item := range w.mustPlan(m).Items() {
		w.inventory[item.Key] = item.Entry() // the job was cut off before it noted the uid
	}
	w.refuse(http.MethodPost)
	w.mustRun(m)
	if data := dataOf(w.MustGet(configMaps, "a")); data["c"] != "manifest" {
		t.Errorf("expected the object as its manifest says, but found %v", data)
	}
}

func isWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == ""
}

// TestChangedBeforePatches: a patch does not hide what others have changed right before it.
func TestChangedBeforePatches(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]desired.Manifest{
		"strategy":         {Strategy: managedresource.UpdateStrategyPatch},
		"after deployment": {PatchAfterDeployment: fields{"metadata": fields{"annotations": fields{"n": "1"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			build := func(value string) desired.Manifest {
				m := m
				m.Object = &unstructured.Unstructured{Object: w.ConfigMap("a", fields{"a": "1", "b": value})}
				return m
			}
			w.mustRun(build("1"))
			w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPatch {
					w.Patch(configMaps, "a", `{"data":{"a":"theirs"}}`)
				}
				return nil, nil
			})
			w.mustRun(build("2"))
			w.Requests.Undisturbed()
			if dataOf(w.MustGet(configMaps, "a"))["a"] != "theirs" {
				t.Fatal("expected the change of others to come in between")
			}
			w.mustRun(build("2"))
			if diff := cmp.Diff(fields{"a": "1", "b": "2"}, dataOf(w.MustGet(configMaps, "a"))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestOthersInBetweenDiff: a difference is that to the object as it is, not a failure.
func TestOthersInBetweenDiff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.ConfigMap("exists", fields{"a": "1"})))
	once := map[string]bool{}
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet || once[r.Method] {
			return nil, nil
		}
		once[r.Method] = true
		if r.Method == http.MethodPost {
			w.Create(configMaps, w.ConfigMap("appears", nil))
		} else {
			w.Patch(configMaps, "exists", `{"data":{"theirs":"1"}}`)
		}
		return nil, nil
	})
	for _, name := range []string{"exists", "appears"} {
		changes := w.diff(manifest(w.ConfigMap(name, fields{"a": "2"})))
		if len(changes) != 1 || changes[0].Action != sdk.ActionUpdate || (name == "exists" && !strings.Contains(string(changes[0].Before), "theirs")) {
			t.Errorf("expected an update of the object as it is, but found %+v", changes)
		}
	}
}
