package deployer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// TestPodGone: an image that has run is not run again, also when somebody has removed the Pod with force, so that
// nothing of it is there.
// Rule (container.md#jobs-and-errors): The image is not run again when its Pod is lost.
func TestPodGone(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{"while it ran": "hang", "after it had run": "count"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(args)
			w.begin(item)
			w.awaitRun(1)
			if args == "count" { // the plugin has died before its note of the Pod, and the result tells of it
				w.eventually("main to end", func() bool { return w.pods()[0].Status.Phase == corev1.PodSucceeded })
				w.change(item, func(s *v1alpha1.ProviderStatus) { s.Run.PodUID = "" })
			}
			w.removeByForce(&w.pods()[0])
			w.mustFail(w.Finish(plugintest.Reconcile, item), "PodDeleted", "start a new job")
			w.mustHaveRun(1)
			w.discard(item)
		})
	}
}

// removeByForce removes a Pod in spite of its finalizers.
func (w *world) removeByForce(pod *corev1.Pod) {
	w.Helper()
	pods := w.client.CoreV1().Pods(w.Namespace)
	w.eventually("the Pod to be gone", func() bool {
		_, err := pods.Patch(w.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		if err == nil {
			err = pods.Delete(w.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		}
		return apierrors.IsNotFound(err)
	})
}

// TestOldDeployItem: a host that has just begun may read a deploy item as it was before its Pod was created. The image
// is not run again for a job that is over by then, of which nothing is left since there is another one.
func TestOldDeployItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	w.counts(item, 1)
	old := item.DeepCopy()
	w.change(old, func(s *v1alpha1.ProviderStatus) { s.Run.PodUID, s.Run.Outcome, s.Run.Cleared = "", "", false })
	w.counts(item, 2)
	conflict := errors.New("the deploy item has changed meanwhile")
	result := w.Plugin.Reconcile(t.Context(), sdktest.Call{
		DeployItem: old, HostCluster: w.Call.HostCluster, OnSave: func(json.RawMessage) error { return conflict },
	})
	w.MustFail(result, nil, conflict.Error()) // it is tried again
	w.mustHaveRun(2)
	w.mustHave("Secret result", "Secret state")
	w.discard(item)
}

// TestTargetChanged: a Target that leads to another cluster meanwhile does not have the same begun there once more.
// Rule (container.md#jobs-and-errors): A job fails with `TargetChanged` on another cluster than that of its Pod or
// state.
func TestTargetChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   string
		newJob bool
	}{
		"during a job": {"hang", false}, "before a new job": {"hang", true}, "when it has ended": {"count", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item()
			w.SetConfig(item, w.onTarget(c.args))
			w.begin(item)
			w.awaitRun(1)
			if c.args == "count" {
				w.Finish(plugintest.Reconcile, item)
			}
			lead := func(cluster types.UID) {
				w.change(item, func(s *v1alpha1.ProviderStatus) {
					s.Run.Cluster = cluster
					if s.State != nil {
						s.State.Cluster = cluster
					}
				})
			}
			here := w.status(item).Run.Cluster
			lead("elsewhere")
			if c.newJob {
				plugintest.NewJob(item)
			}
			w.mustFail(w.Finish(plugintest.Reconcile, item), "TargetChanged", `Target "edge"`)
			w.mustHaveRun(1)
			var warnings []string
			w.Call.OnMessage = func(m sdktest.Message) {
				if m.Event != nil && m.Event.Warning {
					warnings = append(warnings, m.Event.Reason)
				}
			}
			gone := *item
			gone.Annotations = map[string]string{forceCleanup: "true"}
			if result := w.Finish(plugintest.Delete, &gone); result.Succeeded == nil ||
				!slices.Contains(warnings, "LeftBehind") {
				t.Errorf("deletion: found %s and the warnings %v", result, warnings)
			}
			lead(here)
			w.discard(item)
		})
	}
}

// onNode begins the job of an item whose Pod gets a node on which nothing happens.
func (w *world) onNode() *landscaper.DeployItem {
	w.Helper()
	w.node.stop()
	item := w.item("count")
	w.begin(item)
	if err := w.node.bind(w.Context(), w.pods()[0].Name); err != nil {
		w.Fatal(err)
	}
	return item
}

// setStatus changes the status of the only Pod.
func (w *world) setStatus(phase corev1.PodPhase, reason string, main corev1.ContainerState, others ...string) {
	w.Helper()
	w.eventually("the status of the Pod to be written", func() bool {
		pod := w.pods()[0]
		pod.Status.Phase, pod.Status.Reason = phase, reason
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: layout.MainContainer, Image: "image", State: main}}
		for _, name := range others {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			})
		}
		_, err := w.client.CoreV1().Pods(w.Namespace).UpdateStatus(w.Context(), &pod, metav1.UpdateOptions{})
		return err == nil
	})
}

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "no such thing"}}
}

// mustStop expects that the deployer waits for the Pod to stop.
func (w *world) mustStop(item *landscaper.DeployItem) {
	w.Helper()
	if result := w.Do(plugintest.Reconcile, item); result.InProgress == nil || w.pods()[0].DeletionTimestamp == nil {
		w.Fatalf("expected a wait for the Pod to stop, but found %s", result)
	}
}

// TestGivenUp: a Pod that will not start is stopped before its job fails.
// Rule (container.md#jobs-and-errors): A Pod without a start is stopped before its job fails.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.onNode()
	w.setStatus(corev1.PodPending, "", waiting("InvalidImageName"))
	w.mustStop(item)
	w.mustStop(item)
	w.setStatus(corev1.PodFailed, "", waiting("InvalidImageName"))
	w.mustFail(w.Finish(plugintest.Reconcile, item), "ImagePullFailed", "no such thing")
}

// TestForgottenByKubelet: the error says what the kubelet has told last before it stopped the Pod.
func TestForgottenByKubelet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.onNode()
	w.setStatus(corev1.PodPending, "", waiting("ErrImagePull"))
	w.Do(plugintest.Reconcile, item)
	w.setStatus(corev1.PodFailed, "DeadlineExceeded", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "ContainerStatusUnknown", ExitCode: 137, Message: "The container could not be located",
	}})
	result := w.Finish(plugintest.Reconcile, item)
	w.mustFail(result, "DeadlineExceeded", "ErrImagePull: no such thing")
	if strings.Contains(result.Failed.Error(), "located") {
		t.Errorf("found %s", result)
	}
}

// outlived begins the job of an item in whose Pod another container goes on when main has ended, and has the deployer
// look at it some time later.
func (w *world) outlived() *landscaper.DeployItem {
	w.Helper()
	item := w.onNode()
	w.setStatus(corev1.PodRunning, "", corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now()},
	}, "proxy")
	w.ahead.Store(int64(15 * time.Second))
	if result := w.Do(plugintest.Reconcile, item); result.InProgress == nil {
		w.Fatalf("found %s", result)
	}
	return item
}

// TestUploadBesideOthers: exports and state are uploaded although a container goes on beside main, which may not end
// when it is asked to. The Pod is stopped after that.
// Rule (container.md#jobs-and-errors): Exports and state are uploaded while another container goes on, whatever it does
// at its end.
func TestUploadBesideOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.outlived()
	pod := w.pods()[0]
	if told := string(w.access(item)[layout.EndedFile]); told != "true" || pod.DeletionTimestamp != nil ||
		pod.Annotations["container.pergola.dev/main-ended"] != "true" {
		t.Fatalf("the wait container was told %q, and found Pod %+v", told, pod.ObjectMeta)
	}
	if err := w.node.upload(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	w.mustCount(w.Finish(plugintest.Reconcile, item), 1)
	if w.pods()[0].DeletionTimestamp == nil {
		t.Error("the Pod goes on")
	}
}

// TestNoUploadBesideOthers: the Pod is stopped when nothing was uploaded for some time.
func TestNoUploadBesideOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.outlived()
	w.ahead.Store(int64(3 * time.Minute))
	w.mustStop(item)
}

// TestStateOfOthers: a status that names Secrets which are not this item's state gives them to nobody's image, and an
// image that keeps books is not run without all of them.
func TestStateOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(plugintest.Secrets, object{
		"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "others"},
		"stringData": object{layout.ChunkKey: "s3cr3t"},
	})
	other, item := w.item("count"), w.item("count")
	w.counts(other, 1)
	w.counts(item, 1)
	of, own := w.status(other).Run.Name, w.status(item).Run.Name
	for want, state := range map[string]v1alpha1.State{
		"others":         {Secrets: []string{"others"}}, // any Secret
		of + "-state-0":  {ID: of, Chunks: 1},
		own + "-state-1": {ID: own, Chunks: 2}, // it is not whole
	} {
		stray := item.DeepCopy()
		state.Namespace = w.Namespace
		w.change(stray, func(s *v1alpha1.ProviderStatus) { s.State = &state })
		w.mustFail(w.end(plugintest.Reconcile, stray), "StateLost", want, "restore it")
	}
	w.mustHaveRun(2)
}

// TestStateIsLost: after a run whose state could not be kept, no run begins with the older one before the item accepts
// the loss of that very run, and the failure says so.
// Rule (container.md#lost-state): No run begins with an older state than that of the last run, unless the item accepts
// the loss.
func TestStateIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		why  string
	}{
		"upload lost":  {[]string{"lose"}, "container wait has not uploaded exports and state"},
		"not accepted": {[]string{"overflow", "last words"}, "the state is not kept: it is too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item("count")
			w.counts(item, 1)
			w.SetConfig(item, w.config(c.args...))
			failure, run := w.end(plugintest.Reconcile, item).Failed.Error(), w.status(item).Run.Name
			accepted := fmt.Sprintf("%s: %q", acceptLoss, run)
			if strings.Count(failure, c.why) != 1 || !strings.Contains(failure, accepted) ||
				!strings.Contains(failure, strings.Join(c.args[1:], "")) {
				t.Errorf("found %s", failure)
			}
			w.SetConfig(item, w.config("count"))
			for _, annotation := range []string{"", "true", run + "-1"} {
				item.Annotations = map[string]string{acceptLoss: annotation}
				for _, operation := range []plugintest.Operation{plugintest.Reconcile, plugintest.Delete} {
					w.mustFail(w.end(operation, item), "StateLost", c.why, accepted)
				}
			}
			w.mustHaveRun(2)
			item.Annotations = map[string]string{acceptLoss: run}
			for want := 2; want <= 3; want++ {
				w.counts(item, want)
				if lost := w.status(item).StateLost; lost != nil {
					t.Errorf("the next run has left a state, but found %v", lost)
				}
				item.Annotations = nil
			}
			w.discard(item)
		})
	}
}

// TestNoStateIsLost: a run that was stopped before its end has left nothing, and the next run begins with the state of
// before.
// Rule (container.md#lost-state): A run loses no state if others delete its Pod before its end.
func TestNoStateIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	w.counts(item, 1)
	w.SetConfig(item, w.config("hang"))
	w.begin(item)
	w.awaitRun(2)
	w.removeByForce(&w.pods()[0])
	if result := w.Finish(plugintest.Reconcile, item); result.Failed == nil || w.status(item).StateLost != nil {
		t.Errorf("found %s and %+v", result, w.status(item).StateLost)
	}
	w.SetConfig(item, w.config("count"))
	w.counts(item, 2)
	w.discard(item)
}

// TestStateAboveTheLimit: an image does not run when its state could not be kept even as it is, until the operator has
// raised the limit again.
// Rule (container.md#jobs-and-errors): An image does not run with a state above the limit.
func TestStateAboveTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	w.counts(item, 1)
	chunks := func(n int) { w.change(item, func(s *v1alpha1.ProviderStatus) { s.State.Chunks = n }) }
	chunks(2)
	w.Configure(object{"limits": object{"state": "1Mi"}})
	result := w.begin(item)
	w.mustFail(result, "StateTooLarge", "in 2 Secrets of 1048576 bytes, but limits.state allows 1")
	if len(result.Failed.Codes()) > 0 {
		t.Errorf("expected another attempt, but found %s", result)
	}
	chunks(1)
	w.mustCount(w.Finish(plugintest.Reconcile, item), 2)
	w.discard(item)
}
