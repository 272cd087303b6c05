package deployer_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// outlived begins the job of an item in whose Pod another container goes on when main has ended, and has the deployer
// look at it some time later.
func (w *world) outlived() *landscaper.DeployItem {
	w.Helper()
	item := w.startOnNode()
	w.setPodStatus(func(s *corev1.PodStatus) {
		s.Phase = corev1.PodRunning
		s.ContainerStatuses = []corev1.ContainerStatus{
			{
				Name:  layout.MainContainer,
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now()}},
			},
			{Name: "proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}
	})
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
	access, err := w.client.CoreV1().Secrets(w.Namespace).Get(t.Context(), pod.Name+"-access", metav1.GetOptions{})
	if err != nil || string(access.Data[layout.EndedFile]) != "true" || pod.DeletionTimestamp != nil ||
		pod.Annotations["container.pergola.dev/main-ended"] != "true" {
		t.Fatalf("found %d files for the wait container (error %v), and Pod %+v", len(access.Data), err, pod.ObjectMeta)
	}
	if err := w.node.upload(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	if found := fmt.Sprint(w.exportsOf(w.Finish(plugintest.Reconcile, item))["count"]); found != "1" {
		t.Errorf("found %s", found)
	}
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
	if result := w.Do(plugintest.Reconcile, item); result.InProgress == nil || w.pods()[0].DeletionTimestamp == nil {
		t.Errorf("expected it to wait for the Pod to stop, but found %s", result)
	}
}
