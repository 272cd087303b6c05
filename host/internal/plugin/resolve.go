package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The errors about what a plugin asks for and that it is the call's own matter to refuse.
const (
	operationResolve            = "ResolveOtherTarget"
	operationResolveCredentials = "ResolveRegistryCredentials"
	reasonTooManyTargets        = "TooManyTargets"
	reasonTooManySecrets        = "TooManySecrets"
	reasonHostError             = "HostError"
)

// answer answers a question of the plugin. A plugin that does not take the answer is silent. Neither content nor errors
// are logged.
func (c *conversation) answer(ctx context.Context, find func(context.Context) *deployerv1.HostMessage) error {
	if err := waitForTurn(ctx, c.requestPace); err != nil {
		return err
	}
	finding, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found := find(finding)
	defer c.listen()()
	return c.send(found)
}

// resolve answers a question for a Target.
func (c *conversation) resolve(ctx context.Context, in *deployerv1.ResolveTarget) error {
	return c.answer(ctx, func(ctx context.Context) *deployerv1.HostMessage {
		out := &deployerv1.ResolvedTarget{Sequence: in.GetSequence()}
		var err error
		// A name that was cut is none that a Target could have.
		if out.Target, err = c.target(ctx, cut(in.GetName(), maxText)); err != nil {
			out.Error = errorToWire(operationResolve, err)
		}
		return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_ResolvedTarget{ResolvedTarget: out}}
	})
}

// resolveCredentials answers a question for the credentials of a Secret.
func (c *conversation) resolveCredentials(ctx context.Context, in *deployerv1.ResolveRegistryCredentials) error {
	return c.answer(ctx, func(ctx context.Context) *deployerv1.HostMessage {
		out := &deployerv1.ResolvedRegistryCredentials{Sequence: in.GetSequence()}
		// Names that were cut are none that a Secret could have.
		found, err := c.credentials(ctx, types.NamespacedName{Namespace: cut(in.GetNamespace(), maxText),
			Name: cut(in.GetName(), maxText)})
		if err != nil {
			out.Error = errorToWire(operationResolveCredentials, err)
		} else {
			out.Credentials = registryToWire(*found)
		}
		return &deployerv1.HostMessage{
			Content: &deployerv1.HostMessage_ResolvedRegistryCredentials{ResolvedRegistryCredentials: out},
		}
	})
}

func (c *conversation) credentials(ctx context.Context, secret types.NamespacedName) (*sdk.RegistryCredentials, error) {
	if !admit(c.secrets, secret, maxSecrets) {
		return nil, Error{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: operationResolveCredentials,
			Reason: reasonTooManySecrets,
			Message: fmt.Sprintf("Secret %q: a call can ask for at most %d Secrets; let the deploy item name fewer", secret,
				maxSecrets),
		}
	}
	return c.observer.ResolveRegistryCredentials(ctx, secret)
}

// target returns a resolved Target as JSON.
func (c *conversation) target(ctx context.Context, name string) ([]byte, error) {
	if !admit(c.targets, name, maxTargets) {
		return nil, Error{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: operationResolve,
			Reason: reasonTooManyTargets,
			Message: fmt.Sprintf("Target %q: a call can ask for at most %d Targets; let the deploy item name fewer", name,
				maxTargets),
		}
	}
	resolved, err := c.observer.ResolveTarget(ctx, name)
	if err != nil {
		return nil, err
	}
	document, err := json.Marshal(resolved)
	if err != nil {
		return nil, fmt.Errorf("marshal Target %q: %w", name, err)
	}
	return document, nil
}

// admit adds a key to those that were asked for, unless it would be one too many.
func admit[Key comparable](asked map[Key]bool, key Key, most int) bool {
	if !asked[key] && len(asked) == most {
		return false
	}
	asked[key] = true
	return true
}

func errorToWire(operation string, err error) *deployerv1.Error {
	e := Error{Operation: operation, Reason: reasonHostError, Message: err.Error()}
	var told Error
	if errors.As(err, &told) {
		e = told
	}
	out := &deployerv1.Error{Operation: e.Operation, Reason: e.Reason, Message: bounded(e.Message)}
	for _, code := range e.Codes {
		out.Codes = append(out.Codes, string(code))
	}
	return out
}
