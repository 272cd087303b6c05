package desired_test

import (
	"errors"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
)

// Rule (deploy-items.md#next-tries): An object that was deleted during the job is created by another one if its kind is
// one of Kubernetes that has no end.
func TestVanishedHeals(t *testing.T) {
	t.Parallel()
	for key, want := range map[object.Key]bool{
		{Kind: "Service"}:                             true,
		{Group: "apps", Kind: "Deployment"}:           true,
		{Group: "networking.k8s.io", Kind: "Ingress"}: true,
		{Group: "batch", Kind: "Job"}:                 false,
		{Kind: "Pod"}:                                 false,
		{Group: "example.org", Kind: "Backup"}:        false,
	} {
		var e *sdk.Error
		if err := desired.Vanished(&desired.Object{Key: key}); !errors.As(err, &e) || e.Heals != want {
			t.Errorf("%v: expected %t, but found %+v", key, want, e)
		}
	}
}
