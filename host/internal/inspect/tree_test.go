package inspect

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func object(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	text, err := yaml.YAMLToJSON([]byte(document))
	if err == nil {
		err = o.UnmarshalJSON(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// cluster has a Deployment that has come half-way: one Pod of two runs, the other has no image. An older ReplicaSet is
// kept for a rollback.
const cluster = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: web, uid: d}
spec: {replicas: 2, selector: {matchLabels: {app: web}}}
status: {replicas: 2, updatedReplicas: 2, readyReplicas: 1, availableReplicas: 1}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {namespace: shop, name: web-new, uid: r, labels: {app: web}, ownerReferences: [{uid: d}]}
spec: {replicas: 2, selector: {matchLabels: {app: web}}}
status: {replicas: 2, fullyLabeledReplicas: 2, readyReplicas: 1, availableReplicas: 1}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {namespace: shop, name: web-old, labels: {app: web}, ownerReferences: [{uid: d}]}
spec: {replicas: 0}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: web-new-0, labels: {app: web}, ownerReferences: [{uid: r}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: web-new-1, labels: {app: web}, ownerReferences: [{uid: r}]}
status:
  phase: Pending
  containerStatuses:
  - {name: main, state: {waiting: {reason: ImagePullBackOff, message: "no shop:v1\e[31m\nnot found"}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: settings, uid: s}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: token}}
`

func TestTree(t *testing.T) {
	t.Parallel()
	builder := fake.NewClientBuilder()
	for text := range strings.SplitSeq(cluster, "---") {
		builder.WithRuntimeObjects(object(t, text))
	}
	everything := builder.Build()
	deploymentAlone := interceptor.NewClient(everything, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return apierrors.NewForbidden(corev1.Resource("replicasets"), "", errors.New("no"))
		},
	})
	const objects = `{"managedResources":[
		{"policy":"keep","resource":{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"settings"}},
		{"policy":"manage","resource":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"shop","name":"web"}},
		{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"token"},
		{"resource":{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"settings","uid":"another"}}]}`
	const replaced = "\n└─ ConfigMap shop/settings  Missing  " +
		"there is another object of this name instead, with another creator"
	const container = "landscaper.gardener.cloud/container"
	run := func(more string) string {
		return `{"run":{"namespace":"shop","name":"run","outcome":"Succeeded"` + more + `}}`
	}
	for _, tc := range []struct {
		reason, status string
		itemType       v1alpha1.DeployItemType
		target         client.Reader // nil for one that cannot be opened
		want           string        // below the item
	}{
		{reason: "all that there is", status: objects, target: everything, want: `
├─ ConfigMap shop/settings (keep)  Ready
├─ Deployment shop/web  InProgress  Available: 1/2
│  └─ ReplicaSet shop/web-new  InProgress  Available: 1/2
│     ├─ Pod shop/web-new-0  Ready
│     └─ Pod shop/web-new-1  InProgress  container main: ImagePullBackOff: no shop:v1\x1b[31m
│              not found; Pod is in the Pending phase
├─ Secret shop/token  Ready` + replaced},
		{reason: "what cannot be listed", status: objects, target: deploymentAlone, want: `
├─ ConfigMap shop/settings (keep)  Ready
├─ Deployment shop/web  InProgress  Available: 1/2
│  └─ ReplicaSet  Unknown  replicasets is forbidden: no
├─ Secret shop/token  Ready` + replaced},
		{reason: "the last one has others below it", status: `{"managedResources":[
			{"apiVersion":"apps/v1","kind":"Deployment","namespace":"shop","name":"web"}]}`, target: everything, want: `
└─ Deployment shop/web  InProgress  Available: 1/2
   └─ ReplicaSet shop/web-new  InProgress  Available: 1/2
      ├─ Pod shop/web-new-0  Ready
      └─ Pod shop/web-new-1  InProgress  container main: ImagePullBackOff: no shop:v1\x1b[31m
               not found; Pod is in the Pending phase`},
		{reason: "no Target", status: objects, want: "└─ Objects  Unknown  there is none"},
		{
			reason: "a deployer without objects",
			want:   "└─ Objects  Unknown  its deployer keeps none in the status of the item",
		},
		{
			reason: "a container that is done", itemType: container, status: run(`,"cleared":true`),
			want: "└─ Pod shop/run  Gone  the run is over, and its Pod is removed: Succeeded",
		},
		{
			reason: "a container that is not here", itemType: container, status: run(""),
			want: "└─ Pod shop/run  Missing  it is not in the cluster of the DeployItem; " +
				"the host may run containers in another one",
		},
		{
			reason: "a container on the Target", itemType: container, status: run(`,"onTarget":true`), target: everything,
			want: "└─ Pod shop/run  Missing  it is not there",
		},
	} {
		item := &v1alpha1.DeployItem{Spec: v1alpha1.DeployItemSpec{Type: tc.itemType}}
		if tc.status != "" {
			item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(tc.status)}
		}
		open := func() (client.Reader, error) {
			if tc.target == nil {
				return nil, errors.New("there is none")
			}
			return tc.target, nil
		}
		_, below, _ := strings.Cut(Tree(t.Context(), item, everything, open).Text(false), "\n")
		if diff := cmp.Diff(strings.TrimPrefix(tc.want, "\n")+"\n", below); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	const rose, settings = "{apiVersion: a/v1, kind: Rose, ", "{apiVersion: v1, kind: ConfigMap, "
	const pod = "{apiVersion: v1, kind: Pod, status: {phase: Pending, "
	for _, tc := range []struct{ reason, document, want, message string }{ // a part of the message; empty for none
		{"nothing to wait for", settings + "}", "Ready", ""},
		{"older", rose + "metadata: {generation: 2}, status: {observedGeneration: 1}}", "InProgress", "generation"},
		{"stalled", rose + "status: {conditions: [{type: Stalled, status: 'True', message: dry}]}}", "Failed", "dry"},
		{"going", settings + "metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}}", "Terminating", "deletion"},
		{"no status", "{apiVersion: apps/v1, kind: Deployment, status: {conditions: none}}", "Unknown", "be understood"},
		{"it starts", pod + "containerStatuses: [{state: {waiting: {reason: PodInitializing}}}]}}", "InProgress", "Pending"},
		{
			"an init container ends badly",
			pod + "initContainerStatuses: [{name: init, state: {terminated: {exitCode: 3, reason: Error}}}]}}",
			"InProgress", "container init: has ended with code 3: Error; ",
		},
	} {
		status, message := readinessOf(object(t, tc.document))
		if status != tc.want || (message != "") != (tc.message != "") || !strings.Contains(message, tc.message) {
			t.Errorf("%s: expected %s with %q, but found %s with %q", tc.reason, tc.want, tc.message, status, message)
		}
	}
}

func TestManagedObjects(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason   string
		itemType v1alpha1.DeployItemType
		status   string
		known    bool
	}{
		{reason: "another status", status: `{"progress":1}`},
		{reason: "no JSON of that form", status: `{"managedResources":7}`},
		{reason: "nothing deployed", status: `{"managedResources":[]}`, known: true},
		{
			reason: "a container that has not run", itemType: "landscaper.gardener.cloud/container",
			status: `{"lastOperation":"RECONCILE"}`,
		},
	} {
		item := &v1alpha1.DeployItem{Spec: v1alpha1.DeployItemSpec{Type: tc.itemType}}
		item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(tc.status)}
		if objects, err := managedObjects(item); (err == nil) != tc.known || len(objects) > 0 {
			t.Errorf("%s: found %v, %v", tc.reason, objects, err)
		}
	}
}
