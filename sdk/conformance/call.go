package conformance

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Call is what a deployer is called with, and how the host behaves meanwhile. Only DeployItem is required.
//
// A call is cancelled by its context, as everywhere. To do that, or to close Stop, in the middle of a call, use
// OnMessage.
type Call struct {
	// DeployItem to work on. It is not changed.
	DeployItem *v1alpha1.DeployItem
	// Target of the item with its content; nil for none.
	Target *sdk.Target
	// Targets are the other Targets of the item's namespace, by name, which the deployer may ask for. One that is not
	// there is an error with the reason NoTargetFound, as the host gives it. Target can be asked for, too.
	Targets map[string]*sdk.Target
	// Context of the item; nil for an empty one. Neither the credentials nor the ConfigMap that it names are looked for.
	Context *v1alpha1.Context
	// Credentials of the Context, for a plugin with sdk.ContextCredentials; nil for none, as from a host that does not
	// know them. What the plugin says in the call must not hold them.
	Credentials *sdk.Credentials
	// OCMConfig is the ConfigMap that the Context's ocmConfig names, for a plugin with sdk.ContextOCMConfig; nil for a
	// Context that names none.
	OCMConfig *sdk.OCMConfig
	// HostCluster is the access to the cluster that the host runs in, for a plugin with sdk.HostClusterAccess; nil for
	// one that was not granted any. What the plugin says in the call must not hold its token.
	HostCluster *sdk.HostCluster
	// Secrets are those of the item's namespace, by name, whose credentials for registries the deployer may ask for.
	// One that is not there is a problem of the credentials, as the host tells it, and so is one of another namespace.
	Secrets map[string]*sdk.RegistryCredentials
	// Installation of the control plane that the item is in; empty for one that the host does not know.
	Installation string
	// JobID defaults to the one in the item's status.
	JobID string
	// Children replace the desired objects that the deployer would render; nil leaves them.
	Children []sdk.Child

	// OnSave answers a provider status that is to be saved: an error means that it could not be. nil saves all. A
	// deployer must not go on to do what depended on a provider status that was not saved. For a plugin with
	// sdk.LatePickUp a job is not picked up before Reconcile and ForceReconcile: an empty document picks it up, and an
	// error means that it could not be.
	OnSave func(document json.RawMessage) error
	// OnMessage sees each message as it comes, and before it is answered; nil for nobody.
	OnMessage func(Message)
	// Stop asks the deployer to end the call soon and in order, when it is closed; nil for never.
	Stop <-chan struct{}

	// separate sends provider configuration and provider status beside the deploy item.
	separate bool
	// pickUpPending says that the job is not picked up yet.
	pickUpPending bool
	// opening is all that is said instead of the start message, if it is not nil.
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

// start is the first message of a call.
func (c *Call) start() (*deployerv1.Start, error) {
	if c.DeployItem == nil {
		return nil, errors.New("the call has no deploy item")
	}
	start := &deployerv1.Start{
		JobId: cmp.Or(c.JobID, c.DeployItem.Status.JobID), Children: marshalChildren(c.Children),
		Credentials: credentialsToWire(c.Credentials), HostCluster: hostClusterToWire(c.HostCluster),
		OcmConfig:       ocmConfigToWire(c.OCMConfig),
		ResolvesTargets: true, ResolvesRegistryCredentials: true, PickUpPending: c.pickUpPending,
		Installation: c.Installation,
	}
	item := c.DeployItem.DeepCopy()
	if c.separate {
		start.ProviderStatus = c.status()
		item.Status.ProviderStatus = nil
		if item.Spec.Config != nil {
			start.ProviderConfiguration, item.Spec.Config = item.Spec.Config.Raw, nil
		}
	}
	var itemErr, targetErr, contextErr error
	start.DeployItem, itemErr = json.Marshal(item)
	start.Target, targetErr = marshalTarget(item.Namespace, c.Target)
	lsContext := c.Context
	if lsContext == nil {
		lsContext = &v1alpha1.Context{}
	}
	start.Context, contextErr = json.Marshal(lsContext)
	if err := errors.Join(itemErr, targetErr, contextErr); err != nil {
		return nil, fmt.Errorf("marshal the call: %w", err)
	}
	return start, nil
}

// question is start for a call without a conversation, in which nothing can be asked for.
func (c *Call) question() (*deployerv1.Start, error) {
	start, err := c.start()
	if err == nil {
		start.ResolvesTargets, start.ResolvesRegistryCredentials = false, false
	}
	return start, err
}

// with returns the call for the same item with another provider status; nil removes it.
func (c Call) with(status json.RawMessage) Call {
	c.DeployItem = c.DeployItem.DeepCopy()
	c.DeployItem.Status.ProviderStatus = nil
	if len(status) > 0 {
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

// resolve answers a question for a Target.
func (c *Call) resolve(name string) *deployerv1.ResolvedTarget {
	target := c.Targets[name]
	if target == nil && c.Target != nil && c.Target.Name == name {
		target = c.Target
	}
	if target == nil {
		return &deployerv1.ResolvedTarget{Error: &deployerv1.Error{
			Codes:     []string{string(v1alpha1.ErrorConfigurationProblem)},
			Operation: "ResolveTarget",
			Reason:    "NoTargetFound",
			Message: fmt.Sprintf("Target %q: there is none; create it, or name another one",
				c.DeployItem.Namespace+"/"+name),
		}}
	}
	document, err := marshalTarget(c.DeployItem.Namespace, target)
	if err != nil {
		return &deployerv1.ResolvedTarget{Error: &deployerv1.Error{
			Operation: "ResolveTarget", Reason: "HostError", Message: err.Error(),
		}}
	}
	return &deployerv1.ResolvedTarget{Target: document}
}

// credentials answers a question for the credentials of a Secret.
func (c *Call) credentials(namespace, name string) *deployerv1.RegistryCredentials {
	own := c.DeployItem.Namespace
	switch found := c.Secrets[name]; {
	case namespace != "" && namespace != own:
		return &deployerv1.RegistryCredentials{Secret: name, Error: fmt.Sprintf(
			"Secret %q: it is of another namespace than the deploy item, which is of %q", namespace+"/"+name, own)}
	case found == nil:
		return &deployerv1.RegistryCredentials{Secret: name, Error: fmt.Sprintf(
			"there is no Secret %q; create it, or remove the entry", own+"/"+name)}
	default:
		return registryToWire(*found)
	}
}

func marshalTarget(namespace string, target *sdk.Target) ([]byte, error) {
	if target == nil {
		return nil, nil
	}
	document, err := json.Marshal(v1alpha1.ResolvedTarget{
		Target: &v1alpha1.Target{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Target"},
			ObjectMeta: metav1.ObjectMeta{
				Name: target.Name, Namespace: namespace, Labels: target.Labels, Annotations: target.Annotations,
			},
			Spec: v1alpha1.TargetSpec{Type: target.Type},
		},
		Content: string(target.Content),
	})
	if err != nil {
		return nil, fmt.Errorf("marshal target: %w", err)
	}
	return document, nil
}

// marshalChildren keeps apart that nobody changed the children (nil) and that somebody removed them all (empty).
func marshalChildren(children []sdk.Child) *deployerv1.Children {
	if children == nil {
		return nil
	}
	return &deployerv1.Children{Children: convert(children, func(c sdk.Child) *deployerv1.Child {
		return &deployerv1.Child{Name: c.Name, Object: c.Object}
	})}
}

func credentialsToWire(in *sdk.Credentials) *deployerv1.Credentials {
	if in == nil {
		return nil
	}
	return &deployerv1.Credentials{
		Registries: convert(in.Registries, registryToWire),
		ChartRepositories: convert(in.ChartRepositories,
			func(r sdk.ChartRepositoryCredentials) *deployerv1.ChartRepositoryCredentials {
				return &deployerv1.ChartRepositoryCredentials{
					Url: r.URL, CaData: r.CAData, AuthHeader: r.AuthHeader, Error: r.Problem,
				}
			}),
	}
}

func registryToWire(in sdk.RegistryCredentials) *deployerv1.RegistryCredentials {
	return &deployerv1.RegistryCredentials{Secret: in.Secret, DockerConfig: in.DockerConfig, Error: in.Problem}
}

func ocmConfigToWire(in *sdk.OCMConfig) *deployerv1.OCMConfig {
	if in == nil {
		return nil
	}
	return &deployerv1.OCMConfig{ConfigMap: in.ConfigMap, Content: in.Content, Error: in.Problem}
}

func hostClusterToWire(in *sdk.HostCluster) *deployerv1.HostCluster {
	if in == nil {
		return nil
	}
	return &deployerv1.HostCluster{Kubeconfig: in.Kubeconfig, Namespace: in.Namespace, Installation: in.Installation}
}
