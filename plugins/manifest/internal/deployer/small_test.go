package deployer

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestReadProviderStatus(t *testing.T) {
	t.Parallel()
	const group = "manifest.deployer.landscaper.gardener.cloud"
	for name, c := range map[string]struct {
		reason, status string
		entries        int
		stale, fails   bool
	}{
		"none":    {reason: "a new item has no status"},
		"foreign": {reason: "what another deployer noted must not be forgotten", status: `{"apiVersion":"helm.deployer.landscaper.gardener.cloud/v1alpha1","kind":"ProviderStatus"}`, fails: true},
		"kind":    {reason: "neither must something else", status: `{"apiVersion":"` + group + `/v1alpha2","kind":"Other"}`, fails: true},
		"newer":   {reason: "a newer version may name objects elsewhere", status: `{"apiVersion":"` + group + `/v1alpha3","kind":"ProviderStatus"}`, fails: true},
		"older":   {reason: "Landscaper wrote it", status: `{"apiVersion":"` + group + `/v1alpha1","kind":"ProviderStatus"}`, stale: true},
		"future":  {reason: "fields of a newer version are passed over", status: `{"apiVersion":"` + group + `/v1alpha2","kind":"ProviderStatus","new":1,"managedResources":[{"resource":{"apiVersion":"v1","kind":"A","name":"a"},"new":1}]}`, entries: 1},
		"broken":  {reason: "a status that cannot be read is not an empty one", status: `{"apiVersion":7}`, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := &landscaper.DeployItem{}
			if c.status != "" {
				item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(c.status)}
			}
			a, err := readProviderStatus(&sdk.Request{DeployItem: item})
			if (err != nil) != c.fails {
				t.Fatalf("%s: got the error %v", c.reason, err)
			}
			if c.fails {
				return
			}
			if got := len(a.Inventory.Entries()); got != c.entries {
				t.Errorf("%s: expected %d entries, but found %d", c.reason, c.entries, got)
			}
			if unsaved := a.Unsaved(); (unsaved != nil) != c.stale {
				t.Errorf("%s: found %v to save", c.reason, unsaved)
			}
		})
	}
}
