package deployer

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// A newer version of the plugin may have noted what this one does not know.
// Rule (plugin-authors.md#provider-status): The deployers refuse a provider status of a newer version before anything
// is done.
func TestStatusOfANewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	item := &landscaper.DeployItem{}
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(
		`{"apiVersion":"helm.deployer.landscaper.gardener.cloud/v1alpha2","kind":"ProviderStatus"}`)}
	_, err := (&Deployer{}).Delete(t.Context(), &sdk.Request{DeployItem: item})
	var e *sdk.Error
	if !errors.As(err, &e) || e.Reason != sdk.ReasonProviderStatusUnknown {
		t.Errorf("expected the reason %s, but found %v", sdk.ReasonProviderStatusUnknown, err)
	}
}
