package items

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/orphan"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/mark"
)

// markedFor returns the metadata of an object of the namespace with the mark of an item.
func (s *shop) markedFor(item, name string) metav1.ObjectMeta {
	meta := s.named(name)
	meta.Labels = map[string]string{mark.DeployItem: mark.ValueOf(s.namespace, item)}
	return meta
}

// TestItemsOrphans: objects of all kinds are found by their mark. Other tests use the cluster meanwhile.
// Rule (operators-guide.md#objects-of-no-item): `items orphans` lists objects without their item, counts those of other
// control planes, and names gaps.
func TestItemsOrphans(t *testing.T) {
	s := newShop(t)
	kubeSystem := &corev1.Namespace{}
	s.check(s.admin.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, kubeSystem))
	s.item("web")

	s.create(&corev1.ConfigMap{ObjectMeta: s.markedFor("web", "stays")})
	s.create(&corev1.ConfigMap{ObjectMeta: s.named("nobodys")})
	here, foreign := s.markedFor("gone", "settings"), s.markedFor("gone", "foreign")
	here.Annotations = map[string]string{mark.Installation: string(kubeSystem.UID)}
	foreign.Annotations = map[string]string{mark.Installation: "of-" + s.namespace}
	s.create(&corev1.ConfigMap{ObjectMeta: here})
	s.create(&corev1.ConfigMap{ObjectMeta: foreign})
	s.create(&v1alpha1.Context{ObjectMeta: s.markedFor("gone", "resource")})
	role := &rbacv1.ClusterRole{ObjectMeta: s.markedFor("gone", s.namespace)}
	role.Namespace = ""
	s.create(role)
	t.Cleanup(func() {
		if err := s.admin.Delete(context.WithoutCancel(t.Context()), role); err != nil {
			t.Error(err)
		}
	})
	release := s.markedFor("gone", "sh.helm.release.v1.shop.v1")
	s.create(&corev1.Secret{ObjectMeta: release, StringData: map[string]string{"release": "t0ps3cret"}})
	state := s.markedFor("web", "state")
	state.Labels[mark.ContainerItem], state.Labels[mark.ContainerInstallation] = "1234", string(kubeSystem.UID)
	s.create(&corev1.Secret{ObjectMeta: state})

	guest := s.as("guest")
	s.expect([]itemsCase{
		{"a table", "orphans", 1, []string{
			"DEPLOYITEM", "NS.gone", "configmaps ", "settings", "contexts.landscaper.gardener.cloud ", "resource",
			"clusterroles.rbac.authorization.k8s.io ", "sh.helm.release.v1.shop.v1", "NS.web ", "state",
			"Objects of the installation of-NS, of which the DeployItems are not known: 1\n",
		}},
		{"several targets", "orphans --target " + guest + " --target " + s.kubeconfig + " --installation of-NS", 2, []string{
			"TARGET", s.kubeconfig + " ", "foreign", guest + ": your rights do not allow to list ", "secrets, ",
		}},
		{"no right to read the mark", "orphans --kubeconfig " + guest, 2, []string{
			"read the mark of the installation", "--installation", "your own rights",
		}},
		{"no right for items", "orphans --installation x --kubeconfig " + guest, 2, []string{"list DeployItems"}},
		{"no such file", "orphans --target nowhere", 2, []string{"--target nowhere: "}},
	}...)
	out, _, _ := s.run("orphans", "-o", "json")
	var report orphan.Report
	s.check(json.Unmarshal([]byte(out), &report))
	found := map[string]string{} // the UID of the item by the object
	for _, o := range report.Objects {
		if o.Namespace == s.namespace && o.UID != "" {
			found[o.APIVersion+" "+o.Kind+" "+o.Name] = string(o.DeployItemUID)
		}
	}
	want := map[string]string{
		"v1 ConfigMap settings": "", "v1 Secret sh.helm.release.v1.shop.v1": "", "v1 Secret state": "1234",
		"landscaper.gardener.cloud/v1alpha1 Context resource": "",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("orphans (-want +got):\n%s", diff)
	}
}

func TestOrphansOfOthersDoNotCount(t *testing.T) {
	t.Parallel()
	if err := verdictOn(&orphan.Report{OtherInstallations: map[string]int{"there": 1}}); err != nil {
		t.Errorf("expected success, but found %v", err)
	}
}
