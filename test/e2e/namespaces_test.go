package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// A host of some namespaces has the rights of the page for it and no others. It is refused nothing but requests for a
// namespace that is not there.
// Rule (host-configuration.md#namespaces): A host of some namespaces works with rights to them alone, and does not hold
// up others because one is missing.
func TestSomeNamespaces(t *testing.T) {
	served, elsewhere := newNamespace(t), newNamespace(t)
	missing := served + "-missing"
	user := "scoped-" + served
	kubeconfig, err := controlPlane.ScopedKubeconfig(t.Context(), user, served, missing)
	if err != nil {
		t.Fatal(err)
	}
	createTarget(t, served, "cluster")
	item := manifestItem(served, "item", "cluster", configMap(served, "deployed", "a"))
	other := newItem(elsewhere, "item", mockType, mockSucceeds)
	create(t, item)
	create(t, other)
	mark := markAudit(t)
	host := startReadyHost(t, testenv.HostOptions{
		Kubeconfig: kubeconfig, PluginDir: pluginDir(t, "manifest", "mock"), Standalone: true,
		Config: writeConfig(t, anyConfig+"namespaces: ["+served+", "+missing+"]\n"),
	})
	waitFor(t, item, "deployed", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == succeeded })
	deleteItem(t, item)
	eventually(t, "a warning about the missing namespace", func(context.Context) (string, error) {
		if strings.Contains(host.Log(), "NamespaceMissing") {
			return "", nil
		}
		return host.Log(), nil
	})
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil || other.Status.JobID != "" {
		t.Errorf("the item elsewhere: %v, %+v", err, other.Status)
	}
	for _, r := range entriesSince(t, mark) {
		// It has no locks, and may work without the Lease of hosts without locks.
		expected := r.ObjectRef.Namespace == missing || r.ObjectRef.Resource == "leases"
		if r.User.Username == user && r.ResponseStatus.Code == http.StatusForbidden && !expected {
			t.Errorf("the rights of %s do not suffice: %s: %s", testenv.ScopedHostRights, r, r.ResponseStatus.Message)
		}
	}
}
