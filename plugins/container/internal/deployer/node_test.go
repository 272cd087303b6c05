package deployer_test

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// node plays the kubelet and the containers of a namespace, for faults that a real node does not show on demand. By its
// first argument main
//
//   - "count": adds one to the number in its state and exports it,
//   - "fail": does the same and ends with exit code 3,
//   - "hang": does the same when it is asked to end, and ends with exit code 143,
//   - "say": says the next argument and ends with exit code 1,
//   - "lose": ends well, but its wait container uploads nothing,
//   - "overflow": says what comes next, ends with exit code 1, and leaves a state that is too large.
type node struct {
	client    *kubernetes.Clientset
	namespace string

	// stop ends it.
	stop func()

	mu sync.Mutex
	// runs is how often main was run in each Pod, by its name, over all Pods of that name.
	runs map[string]int
	seen map[string]bool // Pods by their UIDs
}

func startNode(t *testing.T, client *kubernetes.Clientset, namespace string) *node {
	t.Helper()
	n := &node{client: client, namespace: namespace, runs: map[string]int{}, seen: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			n.watch(ctx, t)
		}
	})
	n.stop = func() { cancel(); ended.Wait() }
	t.Cleanup(n.stop)
	return n
}

// watch works on each Pod whenever it has changed, until its connection ends.
func (n *node) watch(ctx context.Context, t *testing.T) {
	pods := n.client.CoreV1().Pods(n.namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the test is over
	}
	for i := range list.Items {
		n.work(ctx, t, &list.Items[i])
	}
	changes, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		if pod, ok := change.Object.(*corev1.Pod); ok && change.Type != watch.Deleted {
			n.work(ctx, t, pod)
		}
	}
}

func (n *node) work(ctx context.Context, t *testing.T, pod *corev1.Pod) {
	// After a conflict the Pod has changed, and comes again.
	if err := n.sync(ctx, pod); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) &&
		!apierrors.IsNotFound(err) {
		t.Errorf("the node has failed over Pod %s: %v", pod.Name, err)
	}
}

// sync brings a Pod one step further.
func (n *node) sync(ctx context.Context, pod *corev1.Pod) error {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.DeletionTimestamp != nil && over && len(pod.Finalizers) == 0:
		zero := int64(0)
		return n.client.CoreV1().Pods(n.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
	case over:
		return nil
	case pod.DeletionTimestamp != nil && !n.ran(pod):
		return n.end(ctx, pod, nil)
	case pod.DeletionTimestamp != nil:
		code := int32(143)
		if err := n.upload(ctx, pod); err != nil {
			return err
		}
		return n.end(ctx, pod, &code)
	case n.ran(pod):
		return nil
	case pod.Spec.NodeName == "":
		return n.client.CoreV1().Pods(n.namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node"},
		}, metav1.CreateOptions{})
	}
	return n.start(ctx, pod)
}

func (n *node) ran(pod *corev1.Pod) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[string(pod.UID)]
}

func (n *node) start(ctx context.Context, pod *corev1.Pod) error {
	n.mu.Lock()
	n.runs[pod.Name]++
	n.seen[string(pod.UID)] = true
	n.mu.Unlock()
	code := int32(0)
	switch pod.Spec.Containers[0].Args[0] {
	case "hang":
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: layout.MainContainer, State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()},
			},
		}}
		_, err := n.client.CoreV1().Pods(n.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	case "lose":
		return n.end(ctx, pod, &code)
	case "fail":
		code = 3
	case "say", "overflow":
		code = 1
	}
	if err := n.upload(ctx, pod); err != nil {
		return err
	}
	return n.end(ctx, pod, &code)
}

// end ends a Pod with an exit code of main, nil if that has never run.
func (n *node) end(ctx context.Context, pod *corev1.Pod, code *int32) error {
	for {
		pod.Status.Phase = corev1.PodFailed
		if code != nil {
			if *code == 0 {
				pod.Status.Phase = corev1.PodSucceeded
			}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: layout.MainContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: *code, Reason: "Ended", Message: saysOf(pod), FinishedAt: metav1.Now(),
				}},
			}}
		}
		_, err := n.client.CoreV1().Pods(n.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return err
		}
		fresh, err := n.client.CoreV1().Pods(n.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		fresh.Status = pod.Status
		pod = fresh
	}
}

// saysOf is what main says.
func saysOf(pod *corev1.Pod) string {
	if args := pod.Spec.Containers[0].Args; len(args) > 1 {
		return args[1]
	}
	return ""
}

// upload is what the wait container does.
func (n *node) upload(ctx context.Context, pod *corev1.Pod) error {
	upload, state := layout.Upload{}, ""
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.Secret == nil {
				continue
			}
			secret, err := n.client.CoreV1().Secrets(n.namespace).Get(ctx, source.Secret.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if document, ok := secret.Data[layout.UploadFile]; ok {
				if err := json.Unmarshal(document, &upload); err != nil {
					return err
				}
			}
			if chunk, ok := secret.Data[layout.ChunkKey]; ok && v.Name == "old-state" {
				state += string(chunk)
			}
		}
	}
	if pod.Spec.Containers[0].Args[0] == "overflow" {
		report, err := json.Marshal(layout.Report{
			StateFailed: true, Errors: []string{"the state is not kept: it is too large"},
		})
		if err != nil {
			return err
		}
		return n.apply(ctx, upload.Result, upload.ResultLabels, nil, map[string][]byte{layout.ReportKey: report})
	}
	number := 0
	if state != "" {
		var err error
		if number, err = strconv.Atoi(state); err != nil {
			return err
		}
	}
	text := strconv.Itoa(number + 1)
	annotations := maps.Clone(upload.StateAnnotations)
	annotations[layout.NumberAnnotation] = "0"
	if err := n.apply(ctx, upload.State[0], upload.StateLabels, annotations, map[string][]byte{
		layout.ChunkKey: []byte(text),
	}); err != nil {
		return err
	}
	report, err := json.Marshal(layout.Report{Exported: true, StateChunks: 1})
	if err != nil {
		return err
	}
	return n.apply(ctx, upload.Result, upload.ResultLabels, nil, map[string][]byte{
		layout.ReportKey: report, layout.ChunkKey: []byte(`{"count":` + text + `}`),
	})
}

func (n *node) apply(
	ctx context.Context, name string, labels, annotations map[string]string, data map[string][]byte,
) error {
	content, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "data": data,
		"metadata": map[string]any{"name": name, "labels": labels, "annotations": annotations},
	})
	if err != nil {
		return err
	}
	_, err = n.client.CoreV1().Secrets(n.namespace).Patch(ctx, name, "application/apply-patch+yaml", content,
		metav1.PatchOptions{FieldManager: layout.FieldManager, Force: new(true)})
	return err
}

// ranIn returns how often main was run in each Pod.
func (n *node) ranIn() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.runs)
}
