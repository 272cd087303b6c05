package testenv_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// patience bounds how long a test waits for something that must happen.
const patience = time.Minute

// stage is a namespace of a test on a node.
type stage struct {
	node      *testenv.Node
	client    kubernetes.Interface
	namespace string
}

// newStage creates a namespace that can have pods.
func newStage(t *testing.T, node *testenv.Node, client kubernetes.Interface) *stage {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{node: node, client: client, namespace: namespace.Name}
	eventually(t, "the namespace's ServiceAccount", func(ctx context.Context) (string, error) {
		_, err := client.CoreV1().ServiceAccounts(s.namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "it is not there", nil
		}
		return "", err
	})
	return s
}

// run creates a pod that runs a step, changed by change unless that is nil. Its exports are the message it ends with.
func (s *stage) run(t *testing.T, change func(*corev1.PodSpec), args ...string) (name string) {
	t.Helper()
	spec := corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false),
		Containers: []corev1.Container{{
			Name: "step", Image: stepImage, ImagePullPolicy: corev1.PullNever, Args: args,
			Env: []corev1.EnvVar{
				{Name: "EXPORTS_PATH", Value: corev1.TerminationMessagePathDefault},
				{Name: "STATE_PATH", Value: "/state"},
				{Name: "POD_NAMESPACE", Value: s.namespace},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "state", MountPath: "/state"}},
		}},
		Volumes: []corev1.Volume{{Name: "state", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	if change != nil {
		change(&spec)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "step-"}, Spec: spec}
	pod, err := s.client.CoreV1().Pods(s.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod.Name
}

// await waits until the one container of a pod meets a condition, and returns how it is.
func (s *stage) await(t *testing.T, name, what string, meets func(corev1.ContainerStatus) bool) (status corev1.ContainerStatus) {
	t.Helper()
	eventually(t, "pod "+name+" "+what, func(ctx context.Context) (string, error) {
		pod, err := s.client.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if len(pod.Status.ContainerStatuses) == 0 {
			return fmt.Sprintf("it is %+v", pod.Status), nil
		}
		if status = pod.Status.ContainerStatuses[0]; !meets(status) {
			return fmt.Sprintf("its container is %+v", status.State), nil
		}
		return "", nil
	})
	return status
}

// awaitEnd waits until a pod's container has ended.
func (s *stage) awaitEnd(t *testing.T, name string) *corev1.ContainerStateTerminated {
	t.Helper()
	status := s.await(t, name, "to end", func(c corev1.ContainerStatus) bool { return c.State.Terminated != nil })
	return status.State.Terminated
}

// stop has the kubelet end a pod that hangs, and keep it.
func (s *stage) stop(t *testing.T, name string) {
	t.Helper()
	s.await(t, name, "to run", func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
	eventually(t, "pod "+name+" to hang", func(context.Context) (string, error) {
		if log := s.log(t, name); log != "hanging\n" {
			return fmt.Sprintf("it says %q", log), nil
		}
		return "", nil
	})
	_, err := s.client.CoreV1().Pods(s.namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"spec":{"activeDeadlineSeconds":1}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *stage) log(t *testing.T, name string) string {
	t.Helper()
	log, err := s.client.CoreV1().Pods(s.namespace).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(log)
}

// askKubelet fails unless the kubelet answers.
func (s *stage) askKubelet(t *testing.T) error {
	t.Helper()
	return s.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/node/proxy/healthz").Do(t.Context()).Error()
}

// eventually waits until a condition returns "", which otherwise says what is the case.
func eventually(t *testing.T, what string, condition func(context.Context) (string, error)) {
	t.Helper()
	await.For(t.Context(), t, patience, what, condition)
}
