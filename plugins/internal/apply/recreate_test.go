package apply_test

import (
	"net/http"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Rule (manifest.md#immutable-fields): An immutable field fails the job with `ImmutableField`, or recreates the object
// with `recreate`.
func TestImmutableFields(t *testing.T) {
	each(t, func(w *world) {
		w.mustRun(manifest(w.web("old")))
		before := w.MustGet(deployments, "web")

		changed := manifest(w.web("new"))
		_, err := w.run(changed)
		w.mustFail(err, apply.ReasonImmutableField, true, "manifests[0].manifest: apply Deployment "+w.Namespace+"/web",
			"spec.selector", "field is immutable", "recreate: true at manifests[0]", "another name")
		if w.mustForesee(sdk.ActionFail, "", changed).Before == nil {
			w.Error("expected the state before")
		}
		_, err = w.run(manifest(w.web("new"), recreate, policy(managedresource.PolicyKeep)))
		w.mustFail(err, apply.ReasonImmutableField, true, "recreate has no effect with the policy keep")

		recreate(&changed)
		if c := w.mustForesee(sdk.ActionRecreate, "", changed); c.Before == nil || c.After == nil {
			w.Errorf("expected both states, but found %+v", c)
		}
		if w.MustGet(deployments, "web").GetUID() != before.GetUID() {
			w.Fatal("a difference has deleted the object")
		}
		if result := w.mustRun(changed); len(result.Drift) > 0 {
			w.Errorf("a change of the manifest is no drift, but found %+v", result.Drift)
		}
		if w.MustGet(deployments, "web").GetUID() == before.GetUID() {
			w.Error("expected a new object")
		}
		w.mustSelect(fields{"app": "new"})
	}, byMerge) // it never changes a value
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
	w.mustRun(manifest(w.web("old")))
	w.Patch(deployments, "web", `{"metadata":{"finalizers":["example.org/slow"]}}`)
	changed := manifest(w.web("new"), recreate)
	for range 2 {
		w.mustWait("Deployment "+w.Namespace+"/web", changed)
	}
	w.mustForesee(sdk.ActionRecreate, "being deleted", changed)
	w.Patch(deployments, "web", `{"metadata":{"finalizers":null}}`)
	w.mustRun(changed)
	w.mustSelect(fields{"app": "new"})
}

// TestRecreateDeletesOnlyWhatItHasSeen: an object that changes between the refusal and the deletion is looked at again.
// Rule (manifest.md#immutable-fields): An object changed since the refusal is not deleted for a recreation.
func TestRecreateDeletesOnlyWhatItHasSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.web("old")))
	w.beforeOne(func(r *http.Request) bool { return r.Method == http.MethodDelete }, func() {
		w.Patch(deployments, "web", `{"metadata":{"annotations":{"seen":"no"}}}`)
	})
	w.Requests.Verbs()
	w.mustRun(manifest(w.web("new"), recreate))
	w.mustRequest("GET", "PUT", "dry POST", "DELETE", "GET", "PUT", "dry POST", "DELETE", "GET", "POST")
}

// TestRecreateJob: the API server would keep the pods of a Job, and the Job until somebody has made them orphans, if it
// were not told otherwise.
func TestRecreateJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.job("once", "image:1"), recreate))
	uid := w.MustGet(jobs, "once").GetUID()
	w.mustRun(manifest(w.job("once", "image:2"), recreate))
	if w.MustGet(jobs, "once").GetUID() == uid {
		t.Error("expected a new Job")
	}
}
