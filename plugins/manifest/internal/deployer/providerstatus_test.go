package deployer

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestReadProviderStatus(t *testing.T) {
	t.Parallel()
	status := func(version, more string) string {
		return `{"apiVersion":"manifest.deployer.landscaper.gardener.cloud/` + version + `",` + more + `}`
	}
	const entries = `"kind":"ProviderStatus","new":1,"managedResources":[
		{"resource":{"apiVersion":"v1","kind":"A","name":"a"},"new":1}]`
	for name, c := range map[string]struct {
		reason, status string
		entries        int
		stale, fails   bool
	}{
		"none": {reason: "a new item has no status"},
		"foreign": {
			reason: "what another deployer noted must not be forgotten", fails: true,
			status: `{"apiVersion":"helm.deployer.landscaper.gardener.cloud/v1alpha1","kind":"ProviderStatus"}`,
		},
		"kind": {"neither must something else", status("v1alpha2", `"kind":"Other"`), 0, false, true},
		"newer": {
			"a newer version may name objects elsewhere", status("v1alpha3", `"kind":"ProviderStatus"`), 0, false, true,
		},
		"older":  {"Landscaper wrote it", status("v1alpha1", `"kind":"ProviderStatus"`), 0, true, false},
		"future": {"fields of a newer version are passed over", status("v1alpha2", entries), 1, false, false},
		"broken": {"a status that cannot be read is not an empty one", `{"apiVersion":7}`, 0, false, true},
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
			if !c.fails && (len(a.Inventory.Entries()) != c.entries || (a.Unsaved() != nil) != c.stale) {
				t.Errorf("%s: expected %d entries, but found %v; %v to save", c.reason, c.entries, a.Inventory, a.Unsaved())
			}
		})
	}
}
