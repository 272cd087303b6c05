package apply_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// TestRespeltValuesAreWrittenOnce: the API server spells a quantity in another way than the manifest or the patch. A
// controller then adds to the object what nobody has named. Neither is a reason to write again, or the two would go on
// for ever.
func TestRespeltValuesAreWrittenOnce(t *testing.T) {
	t.Parallel()
	for _, s := range managedresource.UpdateStrategies() {
		for name, patch := range map[string]fields{
			"manifest": nil,
			"patch": {"spec": fields{"template": fields{"spec": fields{
				"terminationGracePeriodSeconds": int64(5), "overhead": fields{"cpu": "1000m"}, "runtimeClassName": "class",
			}}}},
		} {
			t.Run(name+"-"+lower(s), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				build := func(image string) desired.Manifest {
					o := w.Deployment("web", 1)
					containers := o["spec"].(fields)["template"].(fields)["spec"].(fields)["containers"].([]any)
					container := containers[0].(fields)
					container["image"] = image
					container["resources"] = fields{"limits": fields{"cpu": "1000m"}}
					return manifest(o, strategy(s), patchAfter(patch))
				}
				w.mustRun(build("image:1"))
				w.Patch(deployments, "web", `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"1"}}}`)
				w.mustRun(build("image:2"))
				w.Patch(deployments, "web", `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"2"}}}`)
				w.Requests.Verbs()
				w.mustRun(build("image:2"))
				w.mustRequest("GET")
			})
		}
	}
}

// TestDiffOfFirstApply: a dry run cannot show which fields go when an object is applied for the first time after it was
// written otherwise. So the difference at least says that there is one.
func TestDiffOfFirstApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.ConfigMap("a", fields{"a": "x", "b": "w"})))
	w.Patch(configMaps, "a", `{"data":{"theirs":"2"}}`)
	after := manifest(w.ConfigMap("a", fields{"a": "x"}), strategy(managedresource.UpdateStrategyApply))
	changes := w.diff(after)
	if len(changes) != 1 || changes[0].Action != sdk.ActionUpdate || changes[0].Note == "" {
		t.Errorf("expected an update with a note, but found %+v", changes)
	}
	w.mustRun(after)
	want := fields{"a": "x", "theirs": "2"}
	if diff := cmp.Diff(want, dataOf(w.MustGet(configMaps, "a"))); diff != "" {
		t.Errorf("fields of others stay, ours go: -want +got:\n%s", diff)
	}
	if changes := w.diff(after); len(changes) != 0 {
		t.Errorf("expected no difference any more, but found %+v", changes)
	}
}
