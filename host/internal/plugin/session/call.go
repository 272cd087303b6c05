package session

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Operation of a deployer.
type Operation string

// The operations of a deployer.
const (
	Reconcile      Operation = "Reconcile"
	Delete         Operation = "Delete"
	Abort          Operation = "Abort"
	ForceReconcile Operation = "ForceReconcile"
	CheckHealth    Operation = "CheckHealth"
)

// Call is the input of an operation.
type Call struct {
	// DeployItem with its status.
	DeployItem *v1alpha1.DeployItem
	// Target of the item; nil for an item without one.
	Target *v1alpha1.ResolvedTarget
	// Context of the item. A plugin gets it by way of lscontext.WithoutCredentials.
	Context *v1alpha1.Context
	// Credentials of the Context, possibly none, for a plugin with the capability ContextCredentials; nil for others.
	Credentials *sdk.Credentials
	// OCMConfig is the ConfigMap in the Context's ocmConfig, for a plugin with the capability ContextOCMConfig; nil for
	// others, and for a Context without one.
	OCMConfig *sdk.OCMConfig
	// Deadline of the call; zero for none.
	Deadline time.Time
	// PickUpPending: the job is not picked up yet; only for a plugin with the capability LatePickUp.
	PickUpPending bool
	// Forced: a user forces the job.
	Forced bool
	// Children replace the desired objects of the plugin's own rendering; nil for no change.
	Children []sdk.Child
	// Claims of other items on what this one holds, for a deletion.
	Claims []sdk.Claim
	// ChecksHealth: wake-ups after the job lead to calls of CheckHealth, for a plugin with that capability.
	ChecksHealth bool
}

// ReadNamed reads the credentials and the ConfigMap of the call's Context, as far as a plugin with these capabilities
// gets them. The plugin decides on problems with their content. The error is that of the reader, wrapped, and worth
// another try.
func (c *Call) ReadNamed(ctx context.Context, can hostside.Capabilities, reader lscontext.Reader) (err error) {
	if can.ContextCredentials {
		if c.Credentials, err = lscontext.Credentials(ctx, reader, c.Context); err != nil {
			return err
		}
	}
	if can.ContextOCMConfig {
		c.OCMConfig, err = lscontext.OCMConfig(ctx, reader, c.Context)
	}
	return err
}

// Resolver resolves the input of a call; see target.Resolver.
type Resolver interface {
	lscontext.Reader
	Context(ctx context.Context, item *v1alpha1.DeployItem) (*v1alpha1.Context, error)
	Target(ctx context.Context, item *v1alpha1.DeployItem) (*v1alpha1.ResolvedTarget, error)
}

// CallFor returns the input of a call outside of a job, for a plugin with these capabilities and an item as the plugin
// gets it. The error is that of the resolver.
func CallFor(
	ctx context.Context, can hostside.Capabilities, resolver Resolver, item *v1alpha1.DeployItem,
) (Call, error) {
	lsContext, contextErr := resolver.Context(ctx, item)
	resolved, targetErr := resolver.Target(ctx, item)
	if err := errors.Join(targetErr, contextErr); err != nil {
		return Call{}, err
	}
	c := Call{DeployItem: item, Target: resolved, Context: lsContext}
	return c, c.ReadNamed(ctx, can, resolver)
}

// Observer takes the messages of a plugin during a call. Its methods are called one after the other.
type Observer interface {
	// Progress takes the current step of the plugin.
	Progress(step, message string)
	// SaveProviderStatus saves a provider status for good before it returns, and picks the job up if that is pending. An
	// empty document only picks the job up. The plugin waits for it.
	SaveProviderStatus(ctx context.Context, document []byte) error
	// ResolveTarget returns a Target of the deploy item's namespace by its name, possibly any text. The plugin waits for
	// it, and gets an Error unchanged.
	ResolveTarget(ctx context.Context, name string) (*v1alpha1.ResolvedTarget, error)
	// ResolveRegistryCredentials returns the registry credentials in a Secret by its namespace and name, possibly any
	// text. Problems of the Secret are part of the result. The plugin waits for it, and gets an Error unchanged.
	ResolveRegistryCredentials(ctx context.Context, secret types.NamespacedName) (*sdk.RegistryCredentials, error)
	// Event records an event of the deploy item.
	Event(warning bool, reason, message string)
}
