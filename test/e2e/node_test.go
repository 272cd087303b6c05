package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	progressing = v1alpha1.DeployItemPhaseProgressing
	succeeded   = v1alpha1.DeployItemPhaseSucceeded
	failed      = v1alpha1.DeployItemPhaseFailed
)

// TestNode has the manifest deployer and the helm deployer deploy what runs: with the controllers of Kubernetes, a scheduler, a kubelet and
// containers.
func TestNode(t *testing.T) {
	w := startNodeWorld(t)
	// One after the other, since each wants to see that no process of Helm is left.
	for name, test := range map[string]func(*testing.T, *nodeWorld){
		"Chart is aborted while its Deployment gets ready":     chartIsAborted,
		"Chart is aborted while Helm waits for its Deployment": waitingChartIsAborted,
		"Chart is aborted while Helm waits for a hook":         hookIsAborted,
	} {
		t.Run(name, func(t *testing.T) { test(t, w) })
	}
	for name, test := range map[string]func(*testing.T, *nodeWorld){
		"Deployment becomes ready late":      deploymentBecomesReadyLate,
		"Deployment never becomes ready":     deploymentNeverBecomesReady,
		"Deployment outlasts the job":        deploymentOutlastsJob,
		"Deployment is updated":              deploymentIsUpdated,
		"Deployment is deleted":              deploymentIsDeleted,
		"StatefulSet and DaemonSet":          statefulSetAndDaemonSet,
		"Job fails":                          jobFails,
		"Job succeeds by means of a Service": jobSucceeds,
		"Job deletes itself":                 jobDeletesItself,
		"Chart becomes ready late":           chartBecomesReadyLate,
		"Chart with a hook that fails":       hookFails,
		"Atomic chart with such a hook":      atomicHookFails,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

// promptly is a third of the time after which a job polls that was backdated.
const promptly = 5 * time.Second

// The job waits for the Deployment, says so, and goes on when a watch tells that it is available.
func deploymentBecomesReadyLate(t *testing.T, w *nodeWorld) {
	s, jobID := w.deploy(t, "", controller("Deployment", "late", object{}, waiting))
	s.story.await(t, progressing, "Deployment "+s.namespace+"/late: Available: 0/1")
	available := notice(t, w.client, &appsv1.DeploymentList{}, &appsv1.Deployment{ObjectMeta: s.meta("late")}, func(d *appsv1.Deployment) bool {
		return d.Status.AvailableReplicas > 0
	})
	backdate(t, s.item)
	// Until it has polled once more it polls as a young job does, which would hide that it is not woken.
	time.Sleep(promptly)
	if item := read(t, s.item); item.Status.Phase != progressing {
		t.Errorf("expected the job to wait for the Deployment, but found %s", describe(item))
	}

	s.release(t)
	item := s.finish(t, jobID, succeeded)

	expectSoon(t, "Succeeded", s.story.await(t, succeeded, ""), available.await(t, "the Deployment to be available"))
	if condition := conditionOf(item, "Reconciling"); condition.Status == v1alpha1.ConditionTrue {
		t.Errorf("expected no word of waiting after the end, but found %q", condition.Message)
	}
}

// A Deployment that gives up fails the job at once, with what Kubernetes says.
func deploymentNeverBecomesReady(t *testing.T, w *nodeWorld) {
	s, jobID := w.deploy(t, "", controller("Deployment", "never", object{"progressDeadlineSeconds": 10}, waiting))
	s.story.await(t, progressing, "Deployment "+s.namespace+"/never: ")
	gaveUp := notice(t, w.client, &appsv1.DeploymentList{}, &appsv1.Deployment{ObjectMeta: s.meta("never")}, func(d *appsv1.Deployment) bool {
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
				return true
			}
		}
		return false
	})
	backdate(t, s.item)

	item := s.finish(t, jobID, failed)

	expectSoon(t, "Failed", s.story.await(t, failed, ""), gaveUp.await(t, "the Deployment to give up"))
	expectError(t, item, lastError{"Readiness", "ObjectFailed", []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}},
		"Deployment "+s.namespace+`/never: progress deadline exceeded (0/1 available): ReplicaSet "never-`, `" has timed out progressing.`)
}

// A job whose time is up says what it was waiting for. It is up between two polls, since a call that is cut off says what it was doing.
func deploymentOutlastsJob(t *testing.T, w *nodeWorld) {
	s, jobID := w.deploy(t, "2m10s", controller("Deployment", "slow", object{}, waiting))
	waits := "Deployment " + s.namespace + "/slow: Available: 0/1"
	s.story.await(t, progressing, waits)
	backdate(t, s.item) // leaves 10 s

	item := s.finish(t, jobID, failed)

	expectError(t, item, lastError{"Timeout", "ProgressingTimeout", []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout}},
		"it was waiting for: "+waits)
}

// The update of a Deployment is waited for until nothing of the old revision is left, although something is available all the time.
func deploymentIsUpdated(t *testing.T, w *nodeWorld) {
	rolling := func(args ...string) object {
		return controller("Deployment", "web", object{
			"replicas": 2, "strategy": object{"rollingUpdate": object{"maxSurge": 1, "maxUnavailable": 0}},
		}, args...)
	}
	s, jobID := w.deploy(t, "", rolling())
	s.finish(t, jobID, succeeded)

	jobID = s.update(t, rolling(waiting))
	s.story.await(t, progressing, "Deployment "+s.namespace+"/web: Updated: 1/2")
	s.release(t)
	s.story.await(t, progressing, "Deployment "+s.namespace+"/web: Pending termination: 1")
	s.release(t)
	s.finish(t, jobID, succeeded)

	web := &appsv1.Deployment{ObjectMeta: s.meta("web")}
	s.get(t, web)
	got := web.Status
	if got.ObservedGeneration != web.Generation || got.Replicas != 2 || got.UpdatedReplicas != 2 || got.AvailableReplicas != 2 {
		t.Errorf("expected 2 replicas, updated and available, but found %+v", got)
	}
	var args [][]string
	for _, pod := range s.pods(t) {
		args = append(args, pod.Spec.Containers[0].Args)
	}
	if diff := cmp.Diff([][]string{{waiting}, {waiting}}, args); diff != "" {
		t.Errorf("arguments of the pods (-want +got):\n%s", diff)
	}
}

// The item goes when its Deployment is gone. The ReplicaSet and the pods are the garbage collector's, which takes them away after that.
func deploymentIsDeleted(t *testing.T, w *nodeWorld) {
	s, jobID := w.deploy(t, "", controller("Deployment", "web", object{"replicas": 2}))
	s.finish(t, jobID, succeeded)

	if err := admin.Delete(t.Context(), s.item); err != nil {
		t.Fatal(err)
	}
	setJob(t, s.item)
	deleted := s.story.await(t, gone, "")

	err := w.client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "web"}, &appsv1.Deployment{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("expected the Deployment to be gone with the item, but found the error %v", err)
	}
	t.Logf("when the item is gone there are %s", s.left(t))
	eventually(t, "the pods to be gone", func(context.Context) (string, error) {
		if left := s.left(t); left != (leftover{}) {
			return left.String(), nil
		}
		return "", nil
	})
	t.Logf("after %.1f s nothing is left", time.Since(deleted).Seconds())
}

// Each controller has its own way to count what is there.
func statefulSetAndDaemonSet(t *testing.T, w *nodeWorld) {
	s, jobID := w.deploy(t, "",
		controller("StatefulSet", "set", object{"serviceName": "set", "replicas": 2}, waiting),
		controller("DaemonSet", "daemon", object{}, waiting))

	// The second replica comes when the first is ready.
	s.story.await(t, progressing, "StatefulSet "+s.namespace+"/set: Replicas: 1/2; DaemonSet "+s.namespace+"/daemon: Available: 0/1")
	s.release(t)
	s.story.await(t, progressing, "StatefulSet "+s.namespace+"/set: Ready: 1/2")
	s.release(t)
	s.finish(t, jobID, succeeded)

	set, daemon := &appsv1.StatefulSet{ObjectMeta: s.meta("set")}, &appsv1.DaemonSet{ObjectMeta: s.meta("daemon")}
	s.get(t, set)
	s.get(t, daemon)
	if set.Status.ReadyReplicas != 2 || daemon.Status.NumberAvailable != 1 {
		t.Errorf("expected everything to be ready, but found %+v and %+v", set.Status, daemon.Status)
	}
}

// A Job that has failed fails the job of the item at once.
func jobFails(t *testing.T, w *nodeWorld) {
	s, jobID := w.deploy(t, "", task("fails", "-exit=3"))
	hasFailed := notice(t, w.client, &batchv1.JobList{}, &batchv1.Job{ObjectMeta: s.meta("fails")}, func(j *batchv1.Job) bool {
		for _, c := range j.Status.Conditions {
			if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	})

	item := s.finish(t, jobID, failed)

	expectSoon(t, "Failed", s.story.await(t, failed, ""), hasFailed.await(t, "the Job to fail"))
	expectError(t, item, lastError{"Readiness", "ObjectFailed", []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}},
		"Job "+s.namespace+"/fails: the Job has failed, BackoffLimitExceeded: Job has reached the specified backoff limit")
}

// A Job is waited for until it is done. This one is when the Service has got a pod that answers for it.
func jobSucceeds(t *testing.T, w *nodeWorld) {
	const address = "10.96.0.77" // any of the cluster's range
	s, jobID := w.deploy(t, "",
		task("asks", "-get=http://"+address+"/ready"),
		manifest("v1", "Service", "web", object{
			"clusterIP": address, "selector": object{"app": "web"}, "ports": []any{object{"port": 80, "targetPort": workloadPort}},
		}),
		controller("Deployment", "web", object{}, waiting))

	s.story.await(t, progressing, "Job "+s.namespace+"/asks: the Job is running (1 active, 0 succeeded, 0 failed); "+
		"Deployment "+s.namespace+"/web: Available: 0/1")
	s.release(t)
	s.finish(t, jobID, succeeded)

	asks := &batchv1.Job{ObjectMeta: s.meta("asks")}
	s.get(t, asks)
	if asks.Status.Succeeded != 1 {
		t.Errorf("the item succeeded before its Job: %+v", asks.Status)
	}
}

// A Job that deletes itself when it is done runs once, however long the item waits for something else.
func jobDeletesItself(t *testing.T, w *nodeWorld) {
	s := w.newStage(t)
	var mu sync.Mutex
	seen := map[types.UID]bool{}
	runs := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(seen)
	}
	once := &batchv1.Job{ObjectMeta: s.meta("once")}
	follow(t, w.client, &batchv1.JobList{}, once, func(_ watch.EventType, o client.Object) {
		mu.Lock()
		defer mu.Unlock()
		seen[o.GetUID()] = true
	})
	job := task("once", "-exit=0")
	job["spec"].(object)["ttlSecondsAfterFinished"] = 0
	jobID := s.begin(t, newItem(s.namespace, "item", manifestType, s.config(t, job, controller("Deployment", "web", object{}, waiting))))

	eventually(t, "the Job to be gone", func(ctx context.Context) (string, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(once), &batchv1.Job{})
		if runs() > 0 && apierrors.IsNotFound(err) {
			return "", nil
		}
		return "it is there, or was never", client.IgnoreNotFound(err)
	})
	s.release(t)
	s.finish(t, jobID, succeeded)
	if n := runs(); n != 1 {
		t.Errorf("expected the Job to run once, but found %d", n)
	}
}

// expectSoon checks that the item was in a phase soon after what led to it.
func expectSoon(t *testing.T, phase string, at, cause time.Time) {
	t.Helper()
	took := at.Sub(cause)
	t.Logf("%s %d ms after what it was waiting for", phase, took.Milliseconds())
	if took > promptly {
		t.Errorf("expected a change on the target to wake the job, but it took %s", took)
	}
}

// lastError is what programs read of an error.
type lastError struct {
	Operation, Reason string
	Codes             []v1alpha1.ErrorCode
}

// expectError checks the last error of an item, whose message must contain these texts.
func expectError(t *testing.T, item *v1alpha1.DeployItem, want lastError, texts ...string) {
	t.Helper()
	e := item.Status.LastError
	if e == nil {
		t.Fatalf("expected an error, but found %s", describe(item))
	}
	if diff := cmp.Diff(want, lastError{e.Operation, e.Reason, e.Codes}); diff != "" {
		t.Errorf("last error (-want +got):\n%s", diff)
	}
	for _, text := range texts {
		if !strings.Contains(e.Message, text) {
			t.Errorf("expected %q in the message, but found %q", text, e.Message)
		}
	}
}
