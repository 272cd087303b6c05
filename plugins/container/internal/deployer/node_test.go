package deployer_test

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

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
	list, err := n.pods().List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the test is over
	}
	for i := range list.Items {
		n.work(ctx, t, &list.Items[i])
	}
	changes, err := n.pods().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
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
		return n.pods().Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	case over:
		return nil
	case pod.DeletionTimestamp != nil && !n.ran(pod):
		return n.end(ctx, pod, nil)
	case pod.DeletionTimestamp != nil && *pod.DeletionGracePeriodSeconds == 0: // removed by force: it ends on the spot
		return nil
	case pod.DeletionTimestamp != nil:
		if err := n.upload(ctx, pod); err != nil {
			return err
		}
		return n.end(ctx, pod, new(int32(143)))
	case n.ran(pod):
		return nil
	case pod.Spec.NodeName == "":
		return n.bind(ctx, pod.Name)
	}
	return n.start(ctx, pod)
}

func (n *node) ran(pod *corev1.Pod) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[string(pod.UID)]
}

func (n *node) pods() typedcorev1.PodInterface { return n.client.CoreV1().Pods(n.namespace) }

func (n *node) bind(ctx context.Context, pod string) error {
	return n.pods().Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: "node"},
	}, metav1.CreateOptions{})
}

func (n *node) start(ctx context.Context, pod *corev1.Pod) error {
	n.mu.Lock()
	n.runs[pod.Name]++
	n.seen[string(pod.UID)] = true
	n.mu.Unlock()
	args := pod.Spec.Containers[0].Args
	if args[0] == "hang" {
		pod.Status.Phase = corev1.PodRunning
		return n.setMain(ctx, pod, corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()},
		})
	}
	if args[0] != "lose" {
		if err := n.upload(ctx, pod); err != nil {
			return err
		}
	}
	return n.end(ctx, pod, new(map[string]int32{"fail": 3, "say": 1, "overflow": 1}[args[0]]))
}

// end ends a Pod with an exit code of main, nil if that has never run.
func (n *node) end(ctx context.Context, pod *corev1.Pod, code *int32) error {
	pod.Status.Phase = corev1.PodFailed
	if code == nil {
		return n.setMain(ctx, pod)
	}
	if *code == 0 {
		pod.Status.Phase = corev1.PodSucceeded
	}
	says := strings.Join(pod.Spec.Containers[0].Args[1:], "")
	return n.setMain(ctx, pod, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: *code, Reason: "Ended", Message: says, FinishedAt: metav1.Now(),
	}})
}

// setMain writes the status of a Pod with a state of main, if any, whatever the Pod has become meanwhile.
func (n *node) setMain(ctx context.Context, pod *corev1.Pod, states ...corev1.ContainerState) error {
	for _, state := range states {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: layout.MainContainer, State: state}}
	}
	for {
		_, err := n.pods().UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return err
		}
		fresh, err := n.pods().Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		fresh.Status, pod = pod.Status, fresh
	}
}

// upload is what the wait container does.
func (n *node) upload(ctx context.Context, pod *corev1.Pod) error {
	upload, state := layout.Upload{}, "0"
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
				err = json.Unmarshal(document, &upload)
			}
			if chunk, ok := secret.Data[layout.ChunkKey]; ok && v.Name == "old-state" {
				state += string(chunk)
			}
			if err != nil {
				return err
			}
		}
	}
	result := func(report *layout.Report, exports map[string][]byte) error {
		document, err := json.Marshal(report)
		if err != nil {
			return err
		}
		data := map[string][]byte{layout.ReportKey: document}
		maps.Copy(data, exports)
		return n.apply(ctx, upload.Result, upload.ResultLabels, nil, data)
	}
	if pod.Spec.Containers[0].Args[0] == "overflow" {
		return result(&layout.Report{StateFailed: true, Errors: []string{"the state is not kept: it is too large"}}, nil)
	}
	number, err := strconv.Atoi(state)
	if err != nil {
		return err
	}
	text := strconv.Itoa(number + 1)
	annotations := maps.Clone(upload.StateAnnotations)
	annotations[layout.NumberAnnotation] = "0"
	chunk := map[string][]byte{layout.ChunkKey: []byte(text)}
	if err := n.apply(ctx, upload.State[0], upload.StateLabels, annotations, chunk); err != nil {
		return err
	}
	return result(&layout.Report{Exported: true, StateChunks: 1},
		map[string][]byte{layout.ChunkKey: []byte(`{"count":` + text + `}`)})
}

func (n *node) apply(
	ctx context.Context, name string, labels, annotations map[string]string, data map[string][]byte,
) error {
	secret := applycorev1.Secret(name, n.namespace).WithLabels(labels).WithAnnotations(annotations).WithData(data)
	_, err := n.client.CoreV1().Secrets(n.namespace).Apply(ctx, secret,
		metav1.ApplyOptions{FieldManager: layout.FieldManager, Force: true})
	return err
}

// ranIn returns how often main was run in each Pod.
func (n *node) ranIn() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.runs)
}
