package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// deployment creates a Deployment that has come half-way, as its controllers would: one Pod of two runs, the other has no image.
func (s *shop) deployment(name string) {
	s.t.Helper()
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "shop:v1"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	deployment := &appsv1.Deployment{ObjectMeta: s.named(name), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Selector: selector, Template: template}}
	s.create(deployment)
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 1, AvailableReplicas: 1}
	s.status(deployment)
	for revision, replicas := range map[string]int32{"new": 2, "old": 0} {
		set := &appsv1.ReplicaSet{ObjectMeta: s.named(name + "-" + revision), Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector, Template: template}}
		set.Labels, set.OwnerReferences = labels, owned(deployment, "apps/v1", "Deployment")
		s.create(set)
		set.Status = appsv1.ReplicaSetStatus{ObservedGeneration: set.Generation, Replicas: replicas, FullyLabeledReplicas: replicas, ReadyReplicas: min(1, replicas), AvailableReplicas: min(1, replicas)}
		s.status(set)
		for i := range replicas {
			pod := &corev1.Pod{ObjectMeta: s.named(fmt.Sprintf("%s-%d", set.Name, i)), Spec: template.Spec}
			pod.Labels, pod.OwnerReferences = labels, owned(set, "apps/v1", "ReplicaSet")
			s.create(pod)
			ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
			pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{ready}}
			if i == 1 {
				waiting := &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no shop:v1\x1b[31m\nnot found"}
				pod.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: waiting}}}}
			}
			s.status(pod)
		}
	}
}

func (s *shop) status(object client.Object) {
	s.t.Helper()
	if err := s.admin.Status().Update(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

func owned(by client.Object, apiVersion, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: by.GetName(), UID: by.GetUID()}}
}

// managing is a provider status with objects of the namespace, such as "v1 ConfigMap settings keep".
func (s *shop) managing(objects ...string) itemStep {
	entries := make([]string, 0, len(objects))
	for _, object := range objects {
		parts := append(strings.Fields(object), "", "")
		entries = append(entries, fmt.Sprintf(`{"policy":%q,"resource":{"apiVersion":%q,"kind":%q,"namespace":%q,"name":%q,"uid":%q}}`,
			parts[3], parts[0], parts[1], s.namespace, parts[2], parts[4]))
	}
	return keeps(`{"apiVersion":"v1","kind":"ProviderStatus","managedResources":[` + strings.Join(entries, ",") + `]}`)
}

func TestItemsTree(t *testing.T) {
	s := newShop(t)
	s.target("here")
	s.deployment("web")
	s.create(&corev1.ConfigMap{ObjectMeta: s.named("settings")})
	s.create(&corev1.Secret{ObjectMeta: s.named("token"), StringData: map[string]string{"a": "t0ps3cret"}})
	s.item("shop", on("here"), setJob("job-1"), beginJob, waitFor("Deployment web: Available: 1/2"),
		s.managing("v1 ConfigMap settings keep", "apps/v1 Deployment web manage", "v1 Secret token", "v1 ConfigMap lost", "example.org/v1 Rose red", "v1 ConfigMap settings manage other-uid"))

	out, code, err := s.run("tree", "shop")
	want := strings.ReplaceAll(`DeployItem NS/shop  Progressing  Deployment web: Available: 1/2
├─ ConfigMap NS/settings (keep)  Ready
├─ Deployment NS/web  InProgress  Available: 1/2
│  └─ ReplicaSet NS/web-new  InProgress  Available: 1/2
│     ├─ Pod NS/web-new-0  Ready
│     └─ Pod NS/web-new-1  InProgress  container main: ImagePullBackOff: no shop:v1\x1b[31m
│              not found; Pod is in the Pending phase
├─ Secret NS/token  Ready
├─ ConfigMap NS/lost  Missing  it is not there
├─ Rose NS/red  Missing  the cluster has no such kind of objects
└─ ConfigMap NS/settings  Missing  there is another object of this name instead, which somebody else has created
`, "NS", s.namespace)
	if diff := cmp.Diff(want, out); diff != "" || code != 0 {
		t.Errorf("found %d, %v (-want +got):\n%s", code, err, diff)
	}
	out, _, _ = s.run("tree", "shop", "--color", "always")
	if plain := withoutColours(out); plain != want || plain == out {
		t.Errorf("expected the same in colour, but found\n%s", out)
	}
	out, code, err = s.run("tree", "shop", "-o", "json")
	var root inspect.Node
	decodeYAML(t, out, &root)
	if code != 0 || len(root.Children) != 6 || root.Children[1].Children[0].Children[1].Kind != "Pod" || strings.Contains(out, "t0ps3cret") {
		t.Errorf("expected the tree as a document, but found %v\n%s", err, out)
	}
}

func withoutColours(text string) string {
	for _, code := range []string{"0", "31", "32", "33", "90"} {
		text = strings.ReplaceAll(text, "\x1b["+code+"m", "")
	}
	return text
}

// TestItemsTreeSaysWhy: what cannot be read says why in the tree.
func TestItemsTreeSaysWhy(t *testing.T) {
	s := newShop(t)
	s.deployment("web")
	get := []string{"get"}
	s.selfTarget("poor", rbacv1.PolicyRule{Verbs: get, APIGroups: []string{"apps"}, Resources: []string{"deployments"}})
	s.allow("guest", rbacv1.PolicyRule{Verbs: get, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"deployitems"}})
	pod := func(cleared, onTarget bool) itemStep {
		return keeps(fmt.Sprintf(`{"apiVersion":"v1","kind":"ProviderStatus","run":{"namespace":%q,"name":"run","jobID":"j","operation":"RECONCILE","outcome":"Succeeded","cleared":%v,"onTarget":%v}}`, s.namespace, cleared, onTarget))
	}
	container := func(i *v1alpha1.DeployItem) { i.Spec.Type = "landscaper.gardener.cloud/container" }
	objects := s.managing("apps/v1 Deployment web", "v1 ConfigMap settings")
	s.item("poor", on("poor"), objects)
	s.item("lost", on("nowhere"), objects)
	s.item("nowhere", objects)
	s.item("silent", on("poor"))
	for name, run := range map[string]itemStep{"cleared": pod(true, false), "elsewhere": pod(false, false), "on-target": pod(false, true)} {
		item := s.item(name+"-old", on("poor"), run)
		item.ResourceVersion, item.UID, item.Name = "", "", name
		container(item)
		s.create(item)
		s.t.Cleanup(func() { s.release(name) })
		s.take(name, on("poor"), run)
	}
	for _, tc := range []struct {
		reason string
		args   []string
		want   []string
	}{
		{reason: "rights of the Target", args: []string{"poor"}, want: []string{
			"├─ Deployment NS/web  InProgress  Available: 1/2\n", "│  └─ ReplicaSet  Unknown  replicasets.apps is forbidden", "└─ ConfigMap NS/settings  Unknown  configmaps \"settings\" is forbidden",
		}},
		{reason: "no such Target", args: []string{"lost"}, want: []string{"└─ Objects  Unknown  Target \"NS/nowhere\": there is no such Target"}},
		{reason: "no Target at all", args: []string{"nowhere"}, want: []string{"└─ Objects  Unknown  the item has no Target"}},
		{reason: "rights of the user", args: []string{"poor", "--kubeconfig", s.as("guest")}, want: []string{"└─ Objects  Unknown", "targets.landscaper.gardener.cloud \"poor\" is forbidden", "your own rights"}},
		{reason: "a deployer without objects", args: []string{"silent"}, want: []string{"└─ Objects  Unknown  its deployer keeps none"}},
		{reason: "a container that is done", args: []string{"cleared"}, want: []string{"└─ Pod NS/run  Gone  the run is over, and its Pod is removed: Succeeded\n"}},
		{reason: "a container that is not here", args: []string{"elsewhere"}, want: []string{"└─ Pod NS/run  Missing  it is not in the cluster of the DeployItem; the host may"}},
		{reason: "a container on the Target", args: []string{"on-target"}, want: []string{"└─ Pod NS/run  Unknown  pods \"run\" is forbidden"}},
	} {
		out, code, err := s.run(append([]string{"tree"}, tc.args...)...)
		if code != 0 {
			t.Errorf("%s: found the exit code %d: %v", tc.reason, code, err)
		}
		for _, text := range tc.want {
			if text := strings.ReplaceAll(text, "NS", s.namespace); !strings.Contains(out, text) {
				t.Errorf("%s: expected %q in\n%s", tc.reason, text, out)
			}
		}
	}
	if _, code, err := s.run("tree", "nobody"); code != exitFailure || !strings.Contains(err.Error(), "there is no DeployItem") {
		t.Errorf("expected to hear that there is none, but found %d, %v", code, err)
	}
}
