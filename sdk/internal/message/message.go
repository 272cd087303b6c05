// Package message writes and reads the documents in the messages of a host, for both sides of the protocol.
package message

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// OfCall are the documents of a call.
type OfCall struct {
	DeployItem *v1alpha1.DeployItem
	Target     *v1alpha1.ResolvedTarget // nil for an item without one
	Context    *v1alpha1.Context        // may be nil; a plugin reads an empty one then
}

// Write adds the documents to a start. separate sends the provider configuration and the provider status beside the
// deploy item.
func (o *OfCall) Write(start *deployerv1.Start, separate bool) (err error) {
	item := *o.DeployItem
	if separate {
		start.ProviderConfiguration, item.Spec.Config = raw(item.Spec.Config), nil
		start.ProviderStatus, item.Status.ProviderStatus = raw(item.Status.ProviderStatus), nil
	}
	if start.DeployItem, err = write("deploy item", &item); err != nil {
		return err
	}
	if start.Target, err = write("target", o.Target); err != nil {
		return err
	}
	start.Context, err = write("context", o.Context)
	return err
}

// ReadStart reads the documents of a start.
func ReadStart(start *deployerv1.Start) (*OfCall, error) {
	out := &OfCall{DeployItem: &v1alpha1.DeployItem{}, Context: &v1alpha1.Context{}}
	if err := json.Unmarshal(start.GetDeployItem(), out.DeployItem); err != nil {
		return nil, fmt.Errorf("decode deploy item: %w", err)
	}
	if config := start.GetProviderConfiguration(); len(config) > 0 {
		out.DeployItem.Spec.Config = &runtime.RawExtension{Raw: config}
	}
	if status := start.GetProviderStatus(); len(status) > 0 {
		out.DeployItem.Status.ProviderStatus = &runtime.RawExtension{Raw: status}
	}
	if err := read("context", start.GetContext(), out.Context); err != nil {
		return nil, err
	}
	var err error
	out.Target, err = ReadTarget(start.GetTarget())
	return out, err
}

// ReadTarget reads a Target; nil for an item without one. The error quotes nothing of the document, because of its
// credentials.
func ReadTarget(document []byte) (*v1alpha1.ResolvedTarget, error) {
	if len(document) == 0 {
		return nil, nil //nolint:nilnil // no target is an ordinary case and no error
	}
	var resolved v1alpha1.ResolvedTarget
	if json.Unmarshal(document, &resolved) != nil {
		return nil, errors.New("decode target: it is not the JSON of a resolved Target")
	}
	if resolved.Target == nil {
		return nil, errors.New("decode target: the field target is missing")
	}
	return &resolved, nil
}

// WriteValidation asks to check the provider configuration of a deploy item. It takes the configuration out of the
// start, so that it is sent once.
func WriteValidation(item *v1alpha1.DeployItem, start *deployerv1.Start) *deployerv1.ValidateRequest {
	start.ProviderConfiguration = nil
	return &deployerv1.ValidateRequest{
		DeployItemType: string(item.Spec.Type), ProviderConfiguration: raw(item.Spec.Config), Start: start,
	}
}

// ReadValidation returns the start of a Validate. The request of an older host has nothing but type and configuration.
func ReadValidation(in *deployerv1.ValidateRequest) (start *deployerv1.Start, err error) {
	if start = in.GetStart(); start == nil {
		start = &deployerv1.Start{}
		item := &v1alpha1.DeployItem{}
		item.Spec.Type = v1alpha1.DeployItemType(in.GetDeployItemType())
		if start.DeployItem, err = write("deploy item", item); err != nil {
			return nil, err
		}
	}
	start.ProviderConfiguration = in.GetProviderConfiguration()
	return start, nil
}

// OfHooks are the documents of hook functions. Each may be nil.
type OfHooks struct {
	DeployItem *v1alpha1.DeployItem
	Target     *v1alpha1.Target
}

// Write adds the documents, and the Target with its content or nil, to a call of hook functions.
func (o *OfHooks) Write(in *deployerv1.RunHooksRequest, resolved *v1alpha1.ResolvedTarget) (err error) {
	if in.DeployItem, err = write("deploy item", o.DeployItem); err != nil {
		return err
	}
	if in.Target, err = write("target", o.Target); err != nil {
		return err
	}
	in.ResolvedTarget, err = write("resolved target", resolved)
	return err
}

// ReadHooks reads the documents of hook functions. ReadTarget reads the Target with its content.
func ReadHooks(in *deployerv1.RunHooksRequest) (out OfHooks, err error) {
	if err = read("deploy item", in.GetDeployItem(), &out.DeployItem); err == nil {
		err = read("target", in.GetTarget(), &out.Target)
	}
	return out, err
}

func write[T any](what string, value *T) ([]byte, error) {
	if value == nil {
		return nil, nil
	}
	document, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", what, err)
	}
	return document, nil
}

// read leaves a value without a document as it is.
func read(what string, document []byte, into any) error {
	if len(document) == 0 {
		return nil
	}
	if err := json.Unmarshal(document, into); err != nil {
		return fmt.Errorf("decode %s: %w", what, err)
	}
	return nil
}

func raw(document *runtime.RawExtension) []byte {
	if document == nil {
		return nil
	}
	return document.Raw
}
