package sdktest

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Call is what a deployer is called with, and how the host behaves meanwhile. Only DeployItem is required.
//
// A call is cancelled by its context, as everywhere. To do that, or to close Stop, in the middle of a call, use OnMessage.
type Call struct {
	// DeployItem to work on. It is not changed.
	DeployItem *v1alpha1.DeployItem
	// Target of the item with its content; nil for none.
	Target *sdk.Target
	// Context of the item; nil for an empty one.
	Context *v1alpha1.Context
	// JobID defaults to the one in the item's status.
	JobID string
	// Children replace the desired objects that the deployer would render; nil leaves them.
	Children []sdk.Child

	// OnSave answers a provider status that is to be saved: an error means that it could not be. nil saves all. A deployer
	// must not go on to do what depended on a provider status that was not saved.
	OnSave func(document json.RawMessage) error
	// OnMessage sees each message as it comes, and before it is answered; nil for nobody.
	OnMessage func(Message)
	// Stop asks the deployer to end the call soon and in order, when it is closed; nil for never.
	Stop <-chan struct{}
}

// DeployItem returns a deploy item with the given provider configuration, which is marshalled as JSON; nil for none.
// It panics if that is not possible, which is a mistake in the test.
func DeployItem(itemType v1alpha1.DeployItemType, config any) *v1alpha1.DeployItem {
	item := &v1alpha1.DeployItem{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.DeployItemGVK.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: "item", Namespace: "default", UID: "00000000-0000-0000-0000-000000000001", Generation: 1,
		},
		Spec:   v1alpha1.DeployItemSpec{Type: itemType, Context: v1alpha1.DefaultContextName},
		Status: v1alpha1.DeployItemStatus{JobID: "job-1"},
	}
	if config == nil {
		return item
	}
	document, err := json.Marshal(config)
	if err != nil {
		panic(fmt.Sprintf("sdktest: marshal provider configuration: %v", err)) //nolint:forbidigo // a mistake in the test
	}
	item.Spec.Config = &runtime.RawExtension{Raw: document}
	return item
}

// start is the first message of a call.
func (c *Call) start() (*deployerv1.Start, error) {
	if c.DeployItem == nil {
		return nil, fmt.Errorf("the call has no deploy item")
	}
	item, err := json.Marshal(c.DeployItem)
	if err != nil {
		return nil, fmt.Errorf("marshal deploy item: %w", err)
	}
	target, err := marshalTarget(c.DeployItem.Namespace, c.Target)
	if err != nil {
		return nil, err
	}
	lsContext := c.Context
	if lsContext == nil {
		lsContext = &v1alpha1.Context{}
	}
	contextDocument, err := json.Marshal(lsContext)
	if err != nil {
		return nil, fmt.Errorf("marshal context: %w", err)
	}
	jobID := c.JobID
	if jobID == "" {
		jobID = c.DeployItem.Status.JobID
	}
	return &deployerv1.Start{
		DeployItem: item,
		Target:     target,
		Context:    contextDocument,
		JobId:      jobID,
		Children:   marshalChildren(c.Children),
	}, nil
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
	out := &deployerv1.Children{}
	for _, child := range children {
		out.Children = append(out.Children, &deployerv1.Child{Name: child.Name, Object: child.Object})
	}
	return out
}
