// Package content adds repositories of components to the container deployer, for authors of plugins.
//
// The deployer itself resolves blueprint.ref and componentDescriptor.ref in OCI registries. A Resolver is for other
// repositories and types of access; package plugins/container/plugin takes it.
package content

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/pergola-deploy/pergola/sdk"
	containerv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Resolver resolves references to components.
type Resolver interface {
	// Resolve resolves the references of a request. It is called before the creation of a Pod, and for several items at
	// the same time. It should return soon after the end of ctx.
	//
	// A nil result without an error leaves the references to the deployer.
	//
	// With an *sdk.Error in the chain of the error, its codes decide whether the job has failed; other errors lead to a
	// retry of the call. The text of the error appears in the status of the item and must hold no secrets.
	Resolve(ctx context.Context, req *ResolveRequest) (*Resolved, error)
}

// ResolverFunc is a function as a Resolver.
type ResolverFunc func(ctx context.Context, req *ResolveRequest) (*Resolved, error)

var _ Resolver = ResolverFunc(nil)

// Resolve calls the function.
func (f ResolverFunc) Resolve(ctx context.Context, req *ResolveRequest) (*Resolved, error) {
	return f(ctx, req)
}

// ResolveRequest has the references of a provider configuration. It is valid until the call returns, and must not be
// changed.
type ResolveRequest struct {
	// Blueprint is the reference in the field blueprint; nil for none.
	Blueprint *containerv1alpha1.BlueprintReference
	// ComponentDescriptor is the field of the same name, with a reference or a component descriptor; nil for none.
	ComponentDescriptor *containerv1alpha1.ComponentDescriptor
	// DeployItem with the references.
	DeployItem *v1alpha1.DeployItem
	// Context of the item, with the repository context of the component model. It is never nil but may be empty.
	Context *v1alpha1.Context
	// Credentials of the Context; nil for none. They are for this call, and each of them only for its own servers.
	Credentials *sdk.Credentials
	// Log arrives in the host with the item and the job added. Never nil.
	Log *slog.Logger
}

// Resolved is the result of a Resolver.
type Resolved struct {
	// Files of the blueprint by their paths with slashes, such as "charts/shop.tgz"; they count only for a request with
	// a Blueprint. A path invalid for fs.ValidPath, such as "../shop.tgz" or "/shop.tgz", fails the job.
	Files map[string][]byte
	// ComponentDescriptors are the descriptors of the component and of all components referenced by it, as JSON; they
	// count only for a request with a reference to a component descriptor.
	ComponentDescriptors []json.RawMessage
}
