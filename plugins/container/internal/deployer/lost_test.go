package deployer_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// TestPodGone: an image that has run is not run again, also when somebody has removed the Pod with force, so that
// nothing of it is there.
// Rule (container.md#jobs-and-errors): The image is not run again when its Pod is lost.
func TestPodGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, args string
		// forgets: the plugin has died before it could note that it has seen the Pod.
		forgets bool
	}{
		"while it ran":     {reason: "it was seen", args: "hang"},
		"after it had run": {reason: "its result tells of it", args: "count", forgets: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(c.args)
			plugintest.NewJob(item)
			w.Do(plugintest.Reconcile, item)
			w.awaitRun(1)
			if c.forgets {
				w.eventually("main to end", func() bool { return w.pods()[0].Status.Phase == corev1.PodSucceeded })
				w.change(item, func(s *v1alpha1.ProviderStatus) { s.Run.PodUID = "" })
			}
			w.removeByForce(&w.pods()[0])
			result := w.Finish(plugintest.Reconcile, item)
			if result.Failed == nil || result.Failed.Errors[0].Reason != "PodDeleted" ||
				!strings.Contains(result.Failed.Error(), "start a new job") {
				t.Errorf("%s: found %s", c.reason, result)
			}
			if runs := w.node.ranIn(); len(runs) != 1 {
				t.Errorf("%s: expected one run, but found %s", c.reason, describe(runs))
			}
			w.discard(item, false)
		})
	}
}

// TestOldDeployItem: a host that has just begun may read a deploy item as it was before its Pod was created. The image
// is not run again for a job that is over by then, of which nothing is left since there is another one.
func TestOldDeployItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	plugintest.NewJob(item)
	w.Finish(plugintest.Reconcile, item)
	old := item.DeepCopy()
	w.change(old, func(s *v1alpha1.ProviderStatus) { s.Run.PodUID, s.Run.Outcome, s.Run.Cleared = "", "", false })
	plugintest.NewJob(item)
	w.Finish(plugintest.Reconcile, item)
	conflict := errors.New("the deploy item has changed meanwhile")
	result := w.Plugin.Reconcile(t.Context(), sdktest.Call{
		DeployItem: old, HostCluster: w.Call.HostCluster, OnSave: func(json.RawMessage) error { return conflict },
	})
	if result.Failed == nil || len(result.Failed.Codes()) > 0 ||
		!strings.Contains(result.Failed.Error(), conflict.Error()) {
		t.Errorf("expected an error that is tried again, but found %s", result)
	}
	if runs := w.node.ranIn(); len(runs) != 2 {
		t.Errorf("expected two runs, but found %s", describe(runs))
	}
	w.mustHave("Secret result", "Secret state")
	w.discard(item, false)
}

// removeByForce removes a Pod, whoever wants to keep it.
func (w *world) removeByForce(pod *corev1.Pod) {
	w.Helper()
	zero := int64(0)
	pods := w.client.CoreV1().Pods(w.Namespace)
	w.eventually("the Pod to be gone", func() bool {
		_, err := pods.Patch(w.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		if err == nil {
			err = pods.Delete(w.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
		}
		return apierrors.IsNotFound(err)
	})
}

// change changes the provider status of an item.
func (w *world) change(item *landscaper.DeployItem, how func(*v1alpha1.ProviderStatus)) {
	w.Helper()
	status := w.status(item)
	how(status)
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: w.Marshal(status)}
}

// TestTargetChanged: what was begun on one cluster is not begun once more on another one to which the Target leads
// meanwhile.
// Rule (container.md#jobs-and-errors): A job fails with `TargetChanged` on another cluster than that of its Pod or
// state.
func TestTargetChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, args string
		newJob       bool
	}{
		"during a job":      {reason: "the Pod runs there", args: "hang"},
		"before a new job":  {reason: "the Pod of the one before runs there", args: "hang", newJob: true},
		"when it has ended": {reason: "the state is there", args: "count", newJob: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Call.Target = &sdk.Target{
				Name: "edge", Type: landscaper.KubernetesClusterTargetType,
				Content: w.Marshal(object{"kubeconfig": string(w.Call.HostCluster.Kubeconfig)}),
			}
			item := w.item()
			config := w.config(c.args)
			config["runOnTarget"] = object{"namespace": w.Namespace}
			w.SetConfig(item, config)
			plugintest.NewJob(item)
			w.Do(plugintest.Reconcile, item)
			w.awaitRun(1)
			if c.args == "count" {
				w.Finish(plugintest.Reconcile, item)
			}
			here := w.status(item).Run.Cluster
			lead := func(cluster types.UID) {
				w.change(item, func(s *v1alpha1.ProviderStatus) {
					s.Run.Cluster = cluster
					if s.State != nil {
						s.State.Cluster = cluster
					}
				})
			}
			lead("elsewhere")
			if c.newJob {
				plugintest.NewJob(item)
			}
			result := w.Finish(plugintest.Reconcile, item)
			if result.Failed == nil || result.Failed.Errors[0].Reason != "TargetChanged" ||
				!strings.Contains(result.Failed.Error(), `Target "edge"`) {
				t.Errorf("%s: found %s", c.reason, result)
			}
			if runs := w.node.ranIn(); len(runs) != 1 {
				t.Errorf("%s: expected one run, but found %s", c.reason, describe(runs))
			}
			var warnings []string
			w.Call.OnMessage = func(m sdktest.Message) {
				if m.Event != nil && m.Event.Warning {
					warnings = append(warnings, m.Event.Reason)
				}
			}
			gone := *item
			gone.Annotations = map[string]string{"container.deployer.landscaper.gardener.cloud/force-cleanup": "true"}
			if result := w.Finish(plugintest.Delete, &gone); result.Succeeded == nil ||
				!slices.Contains(warnings, "LeftBehind") {
				t.Errorf("%s: deletion: found %s and the warnings %v", c.reason, result, warnings)
			}
			lead(here)
			w.discard(item, false)
		})
	}
}

// TestGivenUp: a Pod that will not start is stopped before its job fails.
// Rule (container.md#jobs-and-errors): A Pod without a start is stopped before its job fails.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.startOnNode()
	w.setPodStatus(func(s *corev1.PodStatus) {
		waiting := &corev1.ContainerStateWaiting{Reason: "InvalidImageName", Message: "no such thing"}
		s.ContainerStatuses = []corev1.ContainerStatus{
			{Name: layout.MainContainer, State: corev1.ContainerState{Waiting: waiting}},
		}
	})
	for range 2 {
		if result := w.Do(plugintest.Reconcile, item); result.InProgress == nil || w.pods()[0].DeletionTimestamp == nil {
			t.Fatalf("expected that it waits for the Pod to stop, but found %s", result)
		}
	}
	w.setPodStatus(func(s *corev1.PodStatus) { s.Phase = corev1.PodFailed })
	result := w.Finish(plugintest.Reconcile, item)
	if result.Failed == nil || result.Failed.Errors[0].Reason != "ImagePullFailed" ||
		!strings.Contains(result.Failed.Error(), "no such thing") {
		t.Errorf("found %s", result)
	}
}

// TestForgottenByKubelet: the error says what the kubelet has told last before it stopped the Pod.
func TestForgottenByKubelet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.startOnNode()
	state := func(phase corev1.PodPhase, reason string, main corev1.ContainerState) {
		w.setPodStatus(func(s *corev1.PodStatus) {
			s.Phase, s.Reason = phase, reason
			s.ContainerStatuses = []corev1.ContainerStatus{{Name: layout.MainContainer, Image: "image", State: main}}
		})
	}
	state(corev1.PodPending, "", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "ErrImagePull", Message: "no such thing",
	}})
	w.Do(plugintest.Reconcile, item)
	state(corev1.PodFailed, "DeadlineExceeded", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "ContainerStatusUnknown", ExitCode: 137,
		Message: "The container could not be located when the pod was terminated",
	}})
	result := w.Finish(plugintest.Reconcile, item)
	if result.Failed == nil || !strings.Contains(result.Failed.Error(), "ErrImagePull: no such thing") ||
		strings.Contains(result.Failed.Error(), "located") {
		t.Errorf("found %s", result)
	}
}

// startOnNode begins the job of an item whose Pod gets a node on which nothing happens.
func (w *world) startOnNode() *landscaper.DeployItem {
	w.Helper()
	w.node.stop()
	item := w.item("count")
	plugintest.NewJob(item)
	w.Do(plugintest.Reconcile, item)
	err := w.client.CoreV1().Pods(w.Namespace).Bind(w.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: w.pods()[0].Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node"},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return item
}

// setPodStatus changes the status of the only Pod.
func (w *world) setPodStatus(change func(*corev1.PodStatus)) {
	w.Helper()
	w.eventually("the status of the Pod to be written", func() bool {
		pod := w.pods()[0]
		change(&pod.Status)
		_, err := w.client.CoreV1().Pods(w.Namespace).UpdateStatus(context.WithoutCancel(w.Context()), &pod,
			metav1.UpdateOptions{})
		return err == nil
	})
}

// TestStateOfOthers: a status that names Secrets which are not this item's state gives them to nobody's image, and an
// image that keeps books is not run without all of them.
func TestStateOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "others"}, Data: map[string][]byte{layout.ChunkKey: []byte("s3cr3t")},
	})
	other, item := w.item("count"), w.item("count")
	w.succeed(other)
	w.succeed(item)
	of, own := w.status(other).Run.Name, w.status(item).Run.Name
	for reason, c := range map[string]struct {
		state v1alpha1.State
		want  string
	}{
		"any Secret":                {v1alpha1.State{Secrets: []string{"others"}}, "others"},
		"the state of another item": {v1alpha1.State{ID: of, Chunks: 1}, of + "-state-0"},
		"a state that is not whole": {v1alpha1.State{ID: own, Chunks: 2}, own + "-state-1"},
	} {
		stray := item.DeepCopy()
		c.state.Namespace = w.Namespace
		w.change(stray, func(s *v1alpha1.ProviderStatus) { s.State = &c.state })
		if found := w.failing(stray); !strings.Contains(found, c.want) || !strings.Contains(found, "restore it") {
			t.Errorf("%s: found %s", reason, found)
		}
	}
	if runs := w.node.ranIn(); len(runs) != 2 {
		t.Errorf("expected two runs, but found %s", describe(runs))
	}
}
