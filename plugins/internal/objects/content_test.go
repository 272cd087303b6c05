package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// TestContent: the metadata set by the API server is no content.
func TestContent(t *testing.T) {
	t.Parallel()
	o := of("v1", "A", fields{"metadata": fields{"name": "a", "labels": fields{"a": "b"}}, "spec": "x"})
	written := o.DeepCopy()
	metadata := written.Object["metadata"].(fields)
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
	metadata["labels"] = fields{"a": "c"}
	if Same(o, written) {
		t.Error("a label makes no difference")
	}
}

func TestCalled(t *testing.T) {
	t.Parallel()
	at := func(name string) fields { return fields{"service": fields{"namespace": "ns", "name": name}} }
	conversion := func(strategy string) fields {
		return fields{"spec": fields{"conversion": fields{"strategy": strategy, "webhook": fields{"clientConfig": at("s")}}}}
	}
	service := []object.Key{{Kind: "Service", Namespace: "ns", Name: "s"}}
	for name, c := range map[string]struct {
		apiVersion, kind string
		more             fields
		want             []object.Key
	}{
		"webhooks": {"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", fields{
			"webhooks": []any{fields{"clientConfig": fields{"url": "https://x"}}, "nonsense", fields{"clientConfig": at("s")}},
		}, service},
		"API":                {"apiregistration.k8s.io/v1", "APIService", fields{"spec": at("s")}, service},
		"local API":          {"apiregistration.k8s.io/v1", "APIService", fields{"spec": fields{}}, nil},
		"conversion":         {"apiextensions.k8s.io/v1", "CustomResourceDefinition", conversion("Webhook"), service},
		"conversion not set": {"apiextensions.k8s.io/v1", "CustomResourceDefinition", conversion("None"), nil},
		"other":              {"v1", "ConfigMap", fields{"spec": at("s")}, nil},
	} {
		if diff := cmp.Diff(c.want, Called(of(c.apiVersion, c.kind, c.more))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
