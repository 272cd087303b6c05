package items

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
)

// managing is a provider status with objects of the namespace, such as "v1 ConfigMap settings".
func (s *shop) managing(objects ...string) itemStep {
	entries := make([]string, 0, len(objects))
	for _, object := range objects {
		parts := strings.Fields(object)
		entries = append(entries, fmt.Sprintf(`{"resource":{"apiVersion":%q,"kind":%q,"namespace":%q,"name":%q}}`,
			parts[0], parts[1], s.namespace, parts[2]))
	}
	return keeps(`{"apiVersion":"v1","kind":"ProviderStatus","managedResources":[` + strings.Join(entries, ",") + `]}`)
}

func TestItemsTree(t *testing.T) {
	s := newShop(t)
	s.target("here")
	s.create(&corev1.ServiceAccount{ObjectMeta: s.named("poor")})
	s.selfTarget("poor", `{"serviceAccount":{"name":"poor"}}`)
	s.allowTo("get", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: "poor"}, "configmaps")
	s.allow("guest", deployItems)
	s.create(&corev1.ConfigMap{ObjectMeta: s.named("settings")})
	s.create(&corev1.Secret{ObjectMeta: s.named("token"), StringData: map[string]string{"a": "t0ps3cret"}})
	objects := s.managing("v1 ConfigMap settings", "v1 Secret token", "v1 ConfigMap lost", "example.org/v1 Rose red")
	s.item("shop", on("here"), setJob("job-1"), beginJob, waitFor("Secret token"), objects)
	s.item("poor", on("poor"), objects)
	s.item("lost", on("nowhere"), objects)
	s.item("nowhere", objects)

	out, code, err := s.run("tree", "shop")
	want := strings.ReplaceAll(`DeployItem NS/shop  Progressing  Secret token
├─ ConfigMap NS/settings  Ready
├─ Secret NS/token  Ready
├─ ConfigMap NS/lost  Missing  it is not there
└─ Rose NS/red  Missing  the cluster has no such kind of objects
`, "NS", s.namespace)
	if diff := cmp.Diff(want, out); diff != "" || code != 0 {
		t.Errorf("found %d, %v (-want +got):\n%s", code, err, diff)
	}
	if out, _, _ = s.run("tree", "shop", "--color", "always"); !strings.Contains(out, "\x1b[32mReady\x1b[0m") {
		t.Errorf("expected it in colour, but found\n%s", out)
	}
	out, code, err = s.run("tree", "shop", "-o", "json")
	var root inspect.Node
	decodeYAML(t, out, &root)
	if code != 0 || len(root.Children) != 4 || root.Children[1].Kind != "Secret" || strings.Contains(out, "t0ps3cret") {
		t.Errorf("expected the tree as a document, but found %v\n%s", err, out)
	}
	s.expect([]itemsCase{
		{"rights of the Target", "tree poor", 0, []string{
			"├─ ConfigMap NS/settings  Ready", "├─ Secret NS/token  Unknown  secrets \"token\" is forbidden",
		}},
		{"no such Target", "tree lost", 0, []string{
			"└─ Objects  Unknown  Target \"NS/nowhere\": there is no such Target",
		}},
		{"no Target at all", "tree nowhere", 0, []string{"└─ Objects  Unknown  the item has no Target"}},
		{"rights of the user", "tree poor --kubeconfig " + s.as("guest"), 0, []string{
			"└─ Objects  Unknown", "targets.landscaper.gardener.cloud \"poor\" is forbidden", "your own rights",
		}},
		{"no such item", "tree nobody", 2, []string{"there is no DeployItem"}},
	}...)
}
