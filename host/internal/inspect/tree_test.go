package inspect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func object(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(document)); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	pod := func(status string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":` + status + `}`
	}
	for _, tc := range []struct {
		reason   string
		document string
		want     string
		message  string // part of it; empty for none
	}{
		{reason: "nothing to wait for", document: `{"apiVersion":"v1","kind":"ConfigMap"}`, want: "Ready"},
		{reason: "an older generation", document: `{"apiVersion":"a/v1","kind":"Rose","metadata":{"generation":2},"status":{"observedGeneration":1}}`, want: "InProgress", message: "generation"},
		{reason: "stalled", document: `{"apiVersion":"a/v1","kind":"Rose","status":{"conditions":[{"type":"Stalled","status":"True","message":"no water"}]}}`, want: "Failed", message: "no water"},
		{reason: "going", document: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`, want: "Terminating", message: "deletion"},
		{reason: "a status that is none", document: `{"apiVersion":"apps/v1","kind":"Deployment","status":{"conditions":"none"}}`, want: "Unknown", message: "cannot be understood"},
		{reason: "a Pod that starts", document: pod(`{"phase":"Pending","containerStatuses":[{"name":"main","state":{"waiting":{"reason":"ContainerCreating"}}}]}`), want: "InProgress", message: "Pending"},
		{
			reason: "a Pod whose init container ends badly", want: "InProgress", message: "container init: has ended with code 3: Error; ",
			document: pod(`{"phase":"Pending","initContainerStatuses":[{"name":"init","state":{"terminated":{"exitCode":3,"reason":"Error"}}}]}`),
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
	name := func(m managedObject) string {
		return strings.Join([]string{m.APIVersion, m.Kind, m.Namespace, m.Name, string(m.policy)}, " ")
	}
	for _, tc := range []struct {
		reason   string
		itemType v1alpha1.DeployItemType
		status   string
		want     []string
		none     bool
	}{
		{reason: "no status", none: true},
		{reason: "another status", status: `{"progress":1}`, none: true},
		{reason: "no JSON of that form", status: `{"managedResources":7}`, none: true},
		{reason: "nothing deployed", status: `{"managedResources":[]}`},
		{
			reason: "both forms", status: `{"managedResources":[{"policy":"keep","resource":{"apiVersion":"v1","kind":"Secret","name":"a","namespace":"n"}},{"apiVersion":"v1","kind":"Namespace","name":"b"}]}`,
			want: []string{"v1 Secret n a keep", "v1 Namespace  b "},
		},
		{reason: "a container that has not run", itemType: "landscaper.gardener.cloud/container", status: `{"lastOperation":"RECONCILE"}`, none: true},
		{reason: "a container", itemType: "landscaper.gardener.cloud/container", status: `{"run":{"namespace":"n","name":"run"}}`, want: []string{"v1 Pod n run "}},
	} {
		item := &v1alpha1.DeployItem{}
		if tc.itemType != "" {
			item.Spec.Type = tc.itemType
		}
		if tc.status != "" {
			item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(tc.status)}
		}
		objects, ok := managedObjects(item)
		var got []string
		for _, m := range objects {
			got = append(got, name(m))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || ok == tc.none {
			t.Errorf("%s: found %v (-want +got):\n%s", tc.reason, ok, diff)
		}
	}
}
