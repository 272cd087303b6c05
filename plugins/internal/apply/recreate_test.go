package apply_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// selecting returns a Deployment whose selector, which is immutable, has a value.
func (w *world) selecting(name, value string) fields {
	o := w.Deployment(name, 1)
	o["spec"].(fields)["selector"] = fields{"matchLabels": fields{"app": value}}
	o["spec"].(fields)["template"].(fields)["metadata"] = fields{"labels": fields{"app": value}}
	return o
}

// Rule (manifest.md#immutable-fields): An immutable field fails the job with `ImmutableField`, or recreates the object
// with `recreate`.
func TestImmutableFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range managedresource.UpdateStrategies() {
		if s == managedresource.UpdateStrategyMerge {
			continue // it never changes a value
		}
		t.Run(lower(s), func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			name := "web-" + lower(s)
			w.mustRun(manifest(w.selecting(name, "old"), strategy(s)))
			before := w.MustGet(deployments, name)

			changed := manifest(w.selecting(name, "new"), strategy(s))
			_, err := w.run(changed)
			w.mustFail(err, apply.ReasonImmutableField, true, "manifests[0].manifest: apply Deployment "+w.Namespace+"/"+name,
				"spec.selector", "field is immutable", "recreate: true at manifests[0]", "another name")
			if changes := w.diff(changed); len(changes) != 1 || changes[0].Action != sdk.ActionFail || changes[0].Before == nil {
				t.Errorf("expected a failure to be foreseen, but found %+v", changes)
			}

			recreate(&changed)
			policy(managedresource.PolicyKeep)(&changed)
			_, err = w.run(changed)
			w.mustFail(err, apply.ReasonImmutableField, true, "recreate has no effect with the policy keep")
			policy(managedresource.PolicyManage)(&changed)

			changes := w.diff(changed)
			if len(changes) != 1 || changes[0].Action != sdk.ActionRecreate || changes[0].Before == nil || changes[0].After == nil {
				t.Errorf("expected it to be foreseen, but found %+v", changes)
			}
			if w.MustGet(deployments, name).GetUID() != before.GetUID() {
				t.Fatal("a difference has deleted the object")
			}
			if result := w.mustRun(changed); len(result.Drift) > 0 {
				t.Errorf("a change of the manifest is no drift, but found %+v", result.Drift)
			}
			after := w.MustGet(deployments, name)
			selector, _, _ := nestedMap(after, "spec", "selector", "matchLabels")
			if after.GetUID() == before.GetUID() || selector["app"] != "new" {
				t.Errorf("expected a new object with the new selector, but found %v", after.Object)
			}
		})
	}
}

// TestInvalidIsNotImmutable: an object that would not be accepted as a new one either is not deleted for it.
func TestInvalidIsNotImmutable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.Deployment("web", 1)))
	uid := w.MustGet(deployments, "web").GetUID()
	_, err := w.run(manifest(w.Deployment("web", -1), recreate))
	w.mustFail(err, target.ReasonRejected, true, "spec.replicas")
	if w.MustGet(deployments, "web").GetUID() != uid {
		t.Error("the object was replaced")
	}
}

// TestRecreateWaits: an object with a finalizer is created anew when it is gone, not before.
// Rule (manifest.md#immutable-fields): A recreation waits for the end of an object with a finalizer.
func TestRecreateWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.selecting("web", "old")))
	w.Patch(deployments, "web", `{"metadata":{"finalizers":["example.org/slow"]}}`)
	changed := manifest(w.selecting("web", "new"), recreate)
	for range 2 {
		result, err := w.run(changed)
		if err != nil || len(result.Waiting) != 1 || !strings.Contains(result.Waiting[0], "Deployment "+w.Namespace+"/web") {
			t.Fatalf("expected to wait for it, but found %v and the error %v", result.Waiting, err)
		}
	}
	if changes := w.diff(changed); len(changes) != 1 || changes[0].Action != sdk.ActionRecreate || !strings.Contains(changes[0].Note, "being deleted") {
		t.Errorf("expected it to be foreseen, but found %+v", changes)
	}
	w.Patch(deployments, "web", `{"metadata":{"finalizers":null}}`)
	w.mustRun(changed)
	selector, _, _ := nestedMap(w.MustGet(deployments, "web"), "spec", "selector", "matchLabels")
	if selector["app"] != "new" {
		t.Errorf("expected the new object, but found the selector %v", selector)
	}
}

// TestRecreateDeletesOnlyWhatItHasSeen: an object that changes between the refusal and the deletion is looked at again.
// Rule (manifest.md#immutable-fields): An object changed since the refusal is not deleted for a recreation.
func TestRecreateDeletesOnlyWhatItHasSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.selecting("web", "old")))
	conflicts := 0
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete && conflicts == 0 {
			conflicts++
			w.Patch(deployments, "web", `{"metadata":{"annotations":{"seen":"no"}}}`)
		}
		return nil, nil
	})
	w.Requests.Verbs()
	w.mustRun(manifest(w.selecting("web", "new"), recreate))
	w.mustRequest("GET", "PUT", "dry POST", "DELETE", "GET", "PUT", "dry POST", "DELETE", "GET", "POST")
}

// TestRecreateJob: the API server would keep the pods of a Job, and the Job until somebody has made them orphans, if it
// were not told otherwise.
func TestRecreateJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	build := func(image string) desired.Manifest {
		return manifest(fields{
			"apiVersion": "batch/v1", "kind": "Job", "metadata": fields{"name": "once", "namespace": w.Namespace},
			"spec": fields{"template": fields{"spec": fields{
				"restartPolicy": "Never", "containers": []any{fields{"name": "main", "image": image}},
			}}},
		}, recreate)
	}
	w.mustRun(build("image:1"))
	uid := w.MustGet(jobs, "once").GetUID()
	w.mustRun(build("image:2"))
	if w.MustGet(jobs, "once").GetUID() == uid {
		t.Error("expected a new Job")
	}
}
