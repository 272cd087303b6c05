package objects

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// TestFrees: a refusal that the deletion of the former release lifts is none.
// Rule (helm.md#releases): A refusal that the deletion of the old release lifts does not refuse the next one.
func TestFrees(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gone    object.Key
		kind    string
		refusal string
		want    bool
	}{
		"quota": {
			gone: object.Key{Kind: "ConfigMap", Namespace: "ns", Name: "a"}, kind: "Secret",
			refusal: `secrets "b" is forbidden: exceeded quota: full`, want: true,
		},
		"quota of another namespace": {
			gone: object.Key{Kind: "ConfigMap", Namespace: "other", Name: "a"}, kind: "Secret",
			refusal: `secrets "b" is forbidden: exceeded quota: full`,
		},
		"port": {
			gone: object.Key{Kind: "Service", Namespace: "ns", Name: "a"}, kind: "Service",
			refusal: "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated", want: true,
		},
		"webhook that names an object that goes": {
			gone: object.Key{Kind: "Ingress", Namespace: "ns", Name: "a"}, kind: "Ingress",
			refusal: "denied the request: host shop.example.org is already defined in ingress ns/a", want: true,
		},
		"webhook": {
			gone: object.Key{Kind: "Ingress", Namespace: "ns", Name: "a"}, kind: "Ingress",
			refusal: "denied the request: no host",
		},
		"permission": {
			gone: object.Key{Kind: "Secret", Namespace: "ns", Name: "a"}, kind: "Secret",
			refusal: `secrets is forbidden: User "u" cannot create resource "secrets" in the namespace "ns"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := &resource.Info{Namespace: "ns", Name: "b", Mapping: &meta.RESTMapping{
				GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: c.kind},
			}}
			if got := frees(c.gone, info, c.refusal); got != c.want {
				t.Errorf("expected %v, but found %v", c.want, got)
			}
		})
	}
}
