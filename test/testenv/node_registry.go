package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	registryImage = "localhost/registry:1"
	// registryPoll is how often StartRegistry looks whether the registry is up.
	registryPoll = 100 * time.Millisecond
)

// Registry is a private registry on a node, for who has user and password. Only the node reaches it, which uses plain HTTP.
type Registry struct {
	// Image is the reference of its one image, such as "127.0.0.1:40123/private/step:1".
	Image string
	// Host is that of the reference, as in a docker configuration: "127.0.0.1:40123".
	Host string
	// User and Password are those of the one client.
	User, Password string
}

// StartRegistry starts a registry on the node and returns when the image is there, which is built of a package as by Image, under a name such
// as "private/step:1". The node does not have the image unless it pulls it. The registry is a pod of the namespace default, and ends with
// the node.
func (n *Node) StartRegistry(ctx context.Context, name, pkg string) (*Registry, error) {
	if err := n.Image(ctx, registryImage, "./test/images/registry"); err != nil {
		return nil, err
	}
	archive, err := n.archive(ctx, name, Root(), pkg)
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(n.Config)
	if err != nil {
		return nil, fmt.Errorf("create client of the node's cluster: %w", err)
	}
	pods := clientset.CoreV1().Pods(metav1.NamespaceDefault)
	r := &Registry{User: "puller", Password: rand.Text()}
	pod, err := pods.Create(ctx, r.pod(archive, name), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create pod of the registry: %w", err)
	}
	if r.Image, err = awaitLine(ctx, pods, pod.Name); err != nil {
		return nil, fmt.Errorf("wait for the registry: %w", err)
	}
	r.Host, _, _ = strings.Cut(r.Image, "/")
	return r, nil
}

// pod runs the registry where the node's container runtime is, for which 127.0.0.1 is the same.
func (r *Registry) pod(archive, name string) *corev1.Pod {
	const inside = "/image.tar"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "registry-"},
		Spec: corev1.PodSpec{
			HostNetwork:                  true,
			RestartPolicy:                corev1.RestartPolicyNever,
			AutomountServiceAccountToken: new(false),
			SecurityContext:              &corev1.PodSecurityContext{RunAsUser: new(int64(0))}, // who may read the archive
			Containers: []corev1.Container{{
				Name:            "registry",
				Image:           registryImage,
				ImagePullPolicy: corev1.PullNever,
				Args:            []string{"-archive", inside, "-image", name, "-user", r.User, "-password", r.Password},
				VolumeMounts:    []corev1.VolumeMount{{Name: "archive", MountPath: inside, ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{Name: "archive", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: archive, Type: new(corev1.HostPathFile)},
			}}},
		},
	}
}

// awaitLine waits until a pod has printed a line, and returns it. The error says what it has printed if it has ended.
func awaitLine(ctx context.Context, pods typedcorev1.PodInterface, name string) (string, error) {
	ticker := time.NewTicker(registryPoll)
	defer ticker.Stop()
	for {
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("read pod: %w", err)
		}
		if pod.Status.Phase != corev1.PodPending {
			log, err := pods.GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx)
			if err != nil {
				return "", fmt.Errorf("read log: %w", err)
			}
			if pod.Status.Phase != corev1.PodRunning {
				return "", fmt.Errorf("the pod is %s and has printed: %s", pod.Status.Phase, log)
			}
			if line, _, whole := strings.Cut(string(log), "\n"); whole {
				return line, nil
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return "", fmt.Errorf("the pod is %s: %w", pod.Status.Phase, ctx.Err())
		}
	}
}
