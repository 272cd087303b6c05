package objecthealth

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// observer answers the questions of a plugin during a check, and passes over its reports.
type observer struct {
	targets   *target.Resolver
	namespace string
}

var _ plugin.Observer = (*observer)(nil)

// Progress implements plugin.Observer.
func (o *observer) Progress(string, string) {}

// Event implements plugin.Observer.
func (o *observer) Event(bool, string, string) {}

// SaveProviderStatus implements plugin.Observer.
func (o *observer) SaveProviderStatus(context.Context, []byte) error {
	return errors.New("a check of health changes nothing, so no provider status is saved")
}

// ResolveTarget implements plugin.Observer.
func (o *observer) ResolveTarget(ctx context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
	return o.targets.Named(ctx, o.namespace, name)
}

// ResolveRegistryCredentials implements plugin.Observer.
func (o *observer) ResolveRegistryCredentials(
	ctx context.Context, secret types.NamespacedName,
) (*sdk.RegistryCredentials, error) {
	return lscontext.NamedCredentials(ctx, o.targets, o.namespace, secret)
}
