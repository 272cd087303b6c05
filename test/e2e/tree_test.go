package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/screenshot"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestTreePicture shows on a terminal, of which a picture is taken, what an item waits for: the Pod of its Deployment that cannot start.
func TestTreePicture(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	const namespace = "orchard"
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	create(t, &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: namespace}})
	createTarget(t, namespace, "production")
	service := fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":%q},"spec":{"selector":{"app":"slow"},"ports":[{"port":80}]}}`, namespace)
	item := withTarget(newItem(namespace, "web", manifestType, manifestConfig(configMap(namespace, "settings", "green"), service, unreadyDeployment(namespace))), "production")
	create(t, item)
	setJob(t, item)
	waitFor(t, item, "waiting", func(i *v1alpha1.DeployItem) bool { return strings.Contains(waitsFor(i), "slow") })
	playPods(t, namespace)

	plain := pergola(t, "items", "tree", "web", "-n", namespace, "--kubeconfig", controlPlane.Kubeconfig, "--color=never").stdout
	for _, want := range []string{"orchard/web", "ConfigMap", "settings", "Service", "Deployment", "slow", "ReplicaSet", "Pod", `Back-off pulling image "none"`} {
		if !strings.Contains(plain, want) {
			t.Errorf("expected %q in\n%s", want, plain)
		}
	}
	coloured := pergola(t, "items", "tree", "web", "-n", namespace, "--kubeconfig", controlPlane.Kubeconfig, "--color=always").stdout
	if plain == coloured || !strings.Contains(coloured, "\x1b[") {
		t.Errorf("expected colours in %q", coloured)
	}
	browser, err := screenshot.Find()
	if errors.Is(err, screenshot.ErrNoBrowser) {
		t.Skip(err)
	}
	picture, err := browser.Terminal(t.Context(), "$ pergola items tree web -n orchard\n"+coloured)
	if err != nil {
		t.Fatal(err)
	}
	keepPicture(t, "items-tree.png", picture, 20)
}

// playPods does what a controller manager and a kubelet do for a Deployment whose image is nowhere.
func playPods(t *testing.T, namespace string) {
	t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "slow"}}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
		t.Fatal(err)
	}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "slow-7c9f", Labels: deployment.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment.Name, UID: deployment.UID, Controller: ptr.To(true)}},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To(int32(1)), Selector: deployment.Spec.Selector, Template: deployment.Spec.Template},
	}
	create(t, set)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "slow-7c9f-x2k4d", Labels: deployment.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID, Controller: ptr.To(true)}},
		},
		Spec: deployment.Spec.Template.Spec,
	}
	create(t, pod)
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodPending,
		Conditions: []corev1.PodCondition{{
			Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers with unready status: [c]",
		}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", Image: "none", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "ImagePullBackOff", Message: `Back-off pulling image "none"`,
			}},
		}},
	}
	if err := admin.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}
