package deployer_test

import (
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// Objects that are done and go by themselves. There are no controllers; the test does what they would.

var (
	jobSucceeded = object{
		"startTime": "2026-01-01T00:00:00Z", "active": 0, "succeeded": 1, "completionTime": "2026-01-01T00:01:00Z",
		"conditions": []any{object{"type": "SuccessCriteriaMet", "status": "True"}, object{"type": "Complete", "status": "True"}},
	}
	jobFailed = object{"startTime": "2026-01-01T00:00:00Z", "conditions": []any{
		object{"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded"},
		object{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "it has tried often enough"},
	}}
)

// running is a Job that has begun.
func (w *world) running(spec object) object {
	all := object{"suspend": false, "template": object{"spec": object{
		"restartPolicy": "Never", "containers": []any{object{"name": "main", "image": "busybox"}},
	}}}
	maps.Copy(all, spec)
	return object{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"name": "job", "namespace": w.Namespace}, "spec": all,
	}
}

// gate is a readiness check that waits until the test has opened it.
func (w *world) gate() object {
	w.Helper()
	w.Create(configMaps, w.configMap("gate", nil))
	return w.check(object{"jsonPath": ".data.open", "operator": "exists"}, "gate")
}

// mustWaitForGate checks that nothing else is waited for.
func (w *world) mustWaitForGate(result *sdktest.Result) {
	w.Helper()
	want := `readiness check "check": ConfigMap ` + w.Namespace + `/gate: expected .data.open to exist, but there is no value yet`
	if result.InProgress == nil || result.InProgress.WaitingFor != want {
		w.Fatalf("expected to wait for nothing but the gate, but found: %s", result)
	}
}

func (w *world) open() {
	w.Helper()
	w.Patch(configMaps, "gate", `{"data":{"open":"yes"}}`)
}

// vanish deletes an object as its controller does when it is done.
func (w *world) vanish(resource schema.GroupVersionResource, name string) {
	w.Helper()
	background := metav1.DeletePropagationBackground
	if err := w.Objects(resource).Delete(w.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		w.Fatal(err)
	}
}

// mustCreate checks what the deployer has created since it was asked last.
func (w *world) mustCreate(resources ...string) {
	w.Helper()
	var created []string
	for _, r := range w.Requests.Take() {
		if strings.HasPrefix(r, http.MethodPost) {
			created = append(created, path.Base(r))
		}
	}
	slices.Sort(created)
	if diff := cmp.Diff(resources, created); diff != "" {
		w.Errorf("what was created: -want +got:\n%s", diff)
	}
}

// startJobOfHook begins a job that a schedule asks for, as the host does.
func startJobOfHook(item *landscaper.DeployItem) {
	plugintest.NewJob(item)
	item.Status.Conditions = []landscaper.Condition{{
		Type: hook.ConditionStarted, Status: landscaper.ConditionTrue, Reason: hook.ReasonStartedByHook, Message: item.Status.JobID,
	}}
}

// TestJobWithTTLRunsOnce: a Job that is gone whenever somebody looks is created once for each job of the user, and by
// no schedule.
// Rule (manifest.md#objects-that-delete-themselves): An object with a TTL counts as ready when it is missing, and only
// a new job of a user recreates it.
func TestJobWithTTLRunsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	checks := w.gate()
	hasSucceeded := []any{object{"jsonPath": ".status.succeeded", "operator": "==", "values": []any{object{"value": 1}}}}
	checks["custom"] = append(checks["custom"].([]any), object{
		"name": "by name", "resourceSelector": []any{object{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "namespace": w.Namespace}},
		"requirements": hasSucceeded,
	}, object{
		"name": "by label", "labelSelector": object{"apiVersion": "batch/v1", "kind": "Job", "matchLabels": object{"of": w.Namespace}},
		"requirements": hasSucceeded,
	})
	job := w.running(object{"ttlSecondsAfterFinished": 0})
	job["metadata"].(object)["labels"] = object{"of": w.Namespace}
	configuration := with(config(job, w.configMap("beside", nil)), "readinessChecks", checks)
	item := w.item(configuration)
	w.mustWait(w.call(item), "Job "+w.Namespace+"/job", "gate")
	w.vanish(jobs, "job")
	w.mustCreate("configmaps", "jobs")
	for range 3 {
		w.Restart()
		w.mustWaitForGate(w.call(item))
	}
	w.open()
	w.mustSucceed(item)
	w.mustCreate()

	for range 2 {
		w.vanish(configMaps, "beside")
		startJobOfHook(item)
		if got, want := eventsOf(w.mustSucceed(item)), []string{
			"Repaired: repaired what had changed on the target: ConfigMap " + w.Namespace + "/beside was missing",
		}; !slices.Equal(got, want) {
			t.Errorf("expected the events %q, but found %q", want, got)
		}
		w.mustCreate("configmaps")
	}

	plugintest.NewJob(item)
	result := w.call(item)
	w.mustWait(result, "Job "+w.Namespace+"/job")
	if events := eventsOf(result); len(events) > 0 {
		t.Errorf("a Job that has deleted itself is no drift, but found %q", events)
	}
	w.vanish(jobs, "job")
	w.mustSucceed(item)
	w.mustCreate("jobs")

	job["spec"].(object)["backoffLimit"] = 1
	w.SetConfig(item, configuration)
	startJobOfHook(item)
	w.mustWait(w.call(item), "Job "+w.Namespace+"/job")
	w.mustCreate("jobs") // another one than the user's job has run
}

// TestSuspended: a Job that its manifest suspends is ready; one that another client has suspended is waited for.
// Rule (manifest.md#readiness): A Job or Deployment suspended or paused by another client is waited for.
func TestSuspended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.running(object{"suspend": true})))
	w.mustSucceed(item)
	w.SetConfig(item, config(w.running(nil)))
	plugintest.NewJob(item)
	w.mustWait(w.call(item), "Job "+w.Namespace+"/job", "has not started")
	w.Patch(jobs, "job", `{"spec":{"suspend":true}}`)
	w.mustWait(w.call(item), "Job "+w.Namespace+"/job: the Job is suspended, which its manifest does not say; resume it")
	w.Patch(jobs, "job", `{"spec":{"suspend":false}}`)
	w.setStatus(jobs, "job", jobSucceeded)
	w.mustSucceed(item)
}

// TestCompleteOnce: what was seen complete is not created again when it is gone, and its end is not waited for.
// Rule (manifest.md#objects-that-delete-themselves): A completed object counts as ready when it is missing, and only a
// new job of a user recreates it.
func TestCompleteOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(with(config(w.running(nil)), "readinessChecks", w.gate()))
	w.mustWait(w.call(item), "Job "+w.Namespace+"/job")
	w.Patch(jobs, "job", `{"metadata":{"finalizers":["example.org/held"]}}`)
	w.setStatus(jobs, "job", jobSucceeded)
	w.vanish(jobs, "job")
	w.call(item) // sees that it is complete
	w.mustWaitForGate(w.call(item))
	w.Patch(jobs, "job", `{"metadata":{"finalizers":null}}`)
	w.mustWaitForGate(w.call(item))
	w.open()
	w.mustSucceed(item)
	startJobOfHook(item)
	w.mustSucceed(item)
	w.mustCreate("jobs")
}

// TestNotDone: what has failed is an error, and is created again by a schedule's job when it is gone.
// Rule (manifest.md#objects-that-delete-themselves): A failed object counts as not completed, and a scheduled job
// recreates it.
func TestNotDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.running(object{"ttlSecondsAfterFinished": 1})))
	w.mustWait(w.call(item))
	w.setStatus(jobs, "job", jobFailed)
	w.MustFail(w.call(item), []landscaper.ErrorCode{landscaper.ErrorNoRetry}, "ObjectFailed", "it has tried often enough")
	w.vanish(jobs, "job")
	startJobOfHook(item)
	w.mustWait(w.call(item))
	w.mustCreate("jobs", "jobs")
}
