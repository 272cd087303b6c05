// Package content lets the author of a plugin add repositories of components to the container deployer.
//
// The deployer itself finds what blueprint.ref and componentDescriptor.ref refer to in OCI registries. A Resolver is for
// other repositories and types of access. Package plugins/container/plugin takes it.
package content

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/pergola-deploy/pergola/sdk"
	containerv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Resolver finds what references refer to.
type Resolver interface {
	// Resolve finds what the references of a request refer to. It is called before a Pod is created, and at the same
	// time for several deploy items. It should return soon after ctx has ended.
	//
	// Without an error it may return nil; the deployer looks for the references itself then.
	//
	// An error that has an *sdk.Error in its chain decides by its codes whether the job has failed; without one the
	// call is retried. Its text appears in the status of the deploy item and must hold no secrets.
	Resolve(ctx context.Context, req *ResolveRequest) (*Resolved, error)
}

// ResolverFunc is a function as a Resolver.
type ResolverFunc func(ctx context.Context, req *ResolveRequest) (*Resolved, error)

var _ Resolver = ResolverFunc(nil)

// Resolve calls the function.
func (f ResolverFunc) Resolve(ctx context.Context, req *ResolveRequest) (*Resolved, error) {
	return f(ctx, req)
}

// ResolveRequest asks for what a provider configuration refers to. It is valid until the call returns, and must not be
// changed.
type ResolveRequest struct {
	// Blueprint is the reference of the field blueprint; nil if it has none.
	Blueprint *containerv1alpha1.BlueprintReference
	// ComponentDescriptor is the field of that name, which may hold a component descriptor itself; nil if there is
	// none.
	ComponentDescriptor *containerv1alpha1.ComponentDescriptor
	// DeployItem that it is for.
	DeployItem *v1alpha1.DeployItem
	// Context of the deploy item, which has the repository context of the component model. It is never nil but may be
	// empty.
	Context *v1alpha1.Context
	// Credentials that the Context names; nil if there are none. They are for this call, and only for the servers that
	// they are meant for.
	Credentials *sdk.Credentials
	// Log arrives in the host with the deploy item and the job added. Never nil.
	Log *slog.Logger
}

// Resolved is what a Resolver has found.
type Resolved struct {
	// Files of the blueprint by their paths with slashes, such as "charts/shop.tgz"; they count only if the request has
	// a Blueprint. A path that fs.ValidPath does not take, such as "../shop.tgz" or "/shop.tgz", fails the job.
	Files map[string][]byte
	// ComponentDescriptors are that of the component and those of the components that it refers to, as JSON; they count
	// only if the request has a reference to a component descriptor.
	ComponentDescriptors []json.RawMessage
}
