package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/exchange"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Call is the input of a call, and the behaviour of the host meanwhile. Only DeployItem is required.
//
// A call is cancelled by its context, as everywhere. To do that, or to close Stop, in the middle of a call, use
// OnMessage.
type Call struct {
	// DeployItem to work on. It is not changed.
	DeployItem *v1alpha1.DeployItem
	// Target of the item with its content; nil for none.
	Target *sdk.Target
	// Targets are the other Targets of the item's namespace, by name, for the deployer's questions. A missing Target is
	// an error with the reason NoTargetFound, as from the host. Target can be asked for, too.
	Targets map[string]*sdk.Target
	// Context of the item; nil for an empty one. Neither its credentials nor its ConfigMap are looked for.
	Context *v1alpha1.Context
	// Credentials of the Context, for a plugin with sdk.ContextCredentials; nil for none, as from an older host. No
	// message of the plugin may hold them.
	Credentials *sdk.Credentials
	// OCMConfig is the ConfigMap in ocmConfig of the Context, for a plugin with sdk.ContextOCMConfig; nil for a Context
	// without it.
	OCMConfig *sdk.OCMConfig
	// HostCluster is the access to the host's cluster, for a plugin with sdk.HostClusterAccess; nil for none. No
	// message of the plugin may hold its token.
	HostCluster *sdk.HostCluster
	// Secrets of the item's namespace, by name, with credentials for registries, for the deployer's questions. A
	// missing Secret, or another namespace, is a problem of the credentials, as from the host.
	Secrets map[string]*sdk.RegistryCredentials
	// Installation of the item's control plane; empty if the host does not know it.
	Installation string
	// JobID defaults to the one in the item's status.
	JobID string
	// Forced: a user forces the job. ForceReconcileUntilDone sets it after the first answer.
	Forced bool
	// Children replace the desired objects of the deployer; nil leaves them.
	Children []sdk.Child
	// Claims of other items on what the item holds, for a deletion.
	Claims []sdk.Claim

	// OnSave answers a provider status: an error means that it was not saved. nil saves all. A deployer must not take
	// the steps that depend on a provider status without saving it. For a plugin with sdk.LatePickUp a job is not
	// picked up before Reconcile and ForceReconcile: an empty document picks it up, and an error means that it could
	// not be.
	OnSave func(document json.RawMessage) error
	// OnMessage gets each message before its answer; may be nil.
	OnMessage func(Message)
	// Stop asks the deployer to end the call soon and in order, when it is closed; nil for never.
	Stop <-chan struct{}

	// separate sends provider configuration and provider status beside the deploy item.
	separate bool
	// pickUpPending: the job is not picked up yet.
	pickUpPending bool
	// opening, if not nil, replaces the start message, and nothing follows it.
	opening []*deployerv1.HostMessage
}

// DeployItem returns a deploy item with the given provider configuration, as JSON; nil for none.
func DeployItem(itemType v1alpha1.DeployItemType, config json.RawMessage) *v1alpha1.DeployItem {
	item := &v1alpha1.DeployItem{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.DeployItemGVK.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: "item", Namespace: "default", UID: "00000000-0000-0000-0000-000000000001", Generation: 1,
		},
		Spec:   v1alpha1.DeployItemSpec{Type: itemType, Context: v1alpha1.DefaultContextName},
		Status: v1alpha1.DeployItemStatus{JobID: "job-1"},
	}
	if config != nil {
		item.Spec.Config = &runtime.RawExtension{Raw: config}
	}
	return item
}

// start is the content of the first message of a call.
func (c *Call) start() (*deployerv1.Start, error) {
	start, err := c.question()
	if err == nil {
		start.ResolvesTargets, start.ResolvesRegistryCredentials, start.PickUpPending = true, true, c.pickUpPending
	}
	return start, err
}

var errNoItem = errors.New("the call has no deploy item")

// job returns the name of the job.
func (c *Call) job() string { return cmp.Or(c.JobID, c.DeployItem.Status.JobID) }

// question is start for a call in which the plugin cannot ask.
func (c *Call) question() (*deployerv1.Start, error) {
	if c.DeployItem == nil {
		return nil, errNoItem
	}
	in := hostside.Call{
		DeployItem: c.DeployItem, JobID: c.job(), Forced: c.Forced,
		Children: c.Children, Claims: c.Claims, Context: cmp.Or(c.Context, &v1alpha1.Context{}),
		Credentials: c.Credentials, OCMConfig: c.OCMConfig, HostCluster: c.HostCluster, Installation: c.Installation,
	}
	if c.Target != nil {
		in.Target = c.objects().Resolved(c.Target)
	}
	return in.Start(c.separate)
}

// After returns the next call for the same item, after a call with the result: its provider status is in the item.
func (c Call) After(result *Result) Call { return c.with(result.ProviderStatus) }

// with returns the call for the same item with another provider status; nil removes it.
func (c Call) with(status json.RawMessage) Call {
	c.DeployItem = c.DeployItem.DeepCopy()
	if c.DeployItem.Status.ProviderStatus = nil; len(status) > 0 {
		c.DeployItem.Status.ProviderStatus = &runtime.RawExtension{Raw: status}
	}
	return c
}

// status is the provider status of the item.
func (c *Call) status() json.RawMessage {
	if c.DeployItem.Status.ProviderStatus == nil {
		return nil
	}
	return c.DeployItem.Status.ProviderStatus.Raw
}

// objects are the answers to the questions of the deployer.
func (c *Call) objects() *exchange.Objects {
	return &exchange.Objects{Namespace: c.DeployItem.Namespace, Target: c.Target, Targets: c.Targets, Secrets: c.Secrets}
}

// converse makes the call: it sends the start message and the further ones, answers questions, and listens until the
// end. broken gets the rules that the plugin breaks.
func (c *Call) converse(
	ctx context.Context, silence time.Duration, open exchange.Opener, broken func(Rule, string),
	further ...*deployerv1.HostMessage,
) *Result {
	result := &Result{ProviderStatus: c.status()}
	messages := c.opening
	if messages == nil {
		start, err := c.start()
		if err != nil {
			result.Err = err
			return result
		}
		messages = append([]*deployerv1.HostMessage{hostside.StartMessage(start)}, further...)
	}
	call := exchange.Call{
		Messages: messages, Silent: c.opening != nil, Stop: c.Stop, PickUpPending: c.pickUpPending, Silence: silence,
		Objects: *c.objects(),
		Save:    c.OnSave,
		Heard: func(m *deployerv1.PluginMessage) {
			if message, known := messageOf(m, c.pickUpPending); known {
				result.Messages = append(result.Messages, message)
				if c.OnMessage != nil {
					c.OnMessage(message)
				}
			}
		},
		Broken: func(rule exchange.Breach, message string) { broken(Rule(rule), message) },
	}
	end, err := call.Make(ctx, open)
	if end.Saved != nil {
		result.ProviderStatus = end.Saved
	}
	if err != nil {
		result.Err = err
		return result
	}
	result.take(end)
	return result
}
