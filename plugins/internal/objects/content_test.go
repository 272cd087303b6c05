package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// TestContent: the metadata set by the API server is no content.
func TestContent(t *testing.T) {
	t.Parallel()
	o := plugintest.Object(`{apiVersion: v1, kind: A, metadata: {name: a, labels: {a: b}}, spec: x}`)
	written := o.DeepCopy()
	metadata := object.Child(written.Object, "metadata")
	for _, name := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"} {
		metadata[name] = "set"
	}
	if !Same(o, written) || len(metadata) != 7 {
		t.Errorf("expected the same content, but found %v", Content(written))
	}
	want := `{"apiVersion":"v1","kind":"A","metadata":{"labels":{"a":"b"},"name":"a"},"spec":"x"}`
	if got := string(Document(written)); got != want || Document(nil) != nil {
		t.Errorf("expected %s, but found %s", want, got)
	}
	object.Child(metadata, "labels")["a"] = "c"
	if Same(o, written) {
		t.Error("a label makes no difference")
	}
}

func TestCalled(t *testing.T) {
	t.Parallel()
	const (
		api        = `apiregistration.k8s.io/v1, kind: APIService`
		definition = `apiextensions.k8s.io/v1, kind: CustomResourceDefinition`
		webhooks   = `admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration`
		at         = `{service: {namespace: ns, name: s}}`
		conversion = `webhook: {clientConfig: ` + at + `}`
	)
	service := []object.Key{{Kind: "Service", Namespace: "ns", Name: "s"}}
	for o, want := range map[string][]object.Key{
		webhooks + `, webhooks: [{clientConfig: {url: "https://x"}}, nonsense, {clientConfig: ` + at + `}]`: service,
		api + `, spec: ` + at:      service,
		api + `, spec: {}`:         nil,
		`v1, kind: A, spec: ` + at: nil,
		definition + `, spec: {conversion: {strategy: Webhook, ` + conversion + `}}`: service,
		definition + `, spec: {conversion: {strategy: None, ` + conversion + `}}`:    nil,
	} {
		if diff := cmp.Diff(want, Called(plugintest.Object("{apiVersion: "+o+"}"))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", o, diff)
		}
	}
}

func TestDefined(t *testing.T) {
	t.Parallel()
	v1 := schema.GroupVersion{Group: "example.org", Version: "v1"}
	widgets := []Kind{{v1.WithKind("Widget"), target.Mapping{Resource: v1.WithResource("widgets"), Namespaced: true}}}
	for o, want := range map[string][]Kind{
		`apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {group: example.org, scope: Namespaced,
			names: {kind: Widget, plural: widgets},
			versions: [{name: v1, served: true}, {name: v0, served: false}, nonsense]}`: widgets,
		`apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: nonsense`: nil,
		`v1, kind: ConfigMap`: nil,
	} {
		if diff := cmp.Diff(want, Defined(plugintest.Object("{apiVersion: "+o+"}"))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", o, diff)
		}
	}
}
