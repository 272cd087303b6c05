package sdk

import (
	"encoding/json"
	"errors"
	"fmt"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Target is where a deploy item goes to. The host has resolved it and enforced its policy: the content holds nothing that
// runs commands, reads files or impersonates somebody.
type Target struct {
	// Name of the Target object, which lives in the namespace of the deploy item.
	Name string
	// Type tells what the content looks like.
	Type v1alpha1.TargetType
	// Labels and Annotations of the Target object.
	Labels, Annotations map[string]string
	// Content is the target's content, for most types JSON or YAML. It holds credentials: it belongs into no log and no error. Printing a Target
	// or a request with package fmt or log/slog, or as JSON, does not show it.
	Content []byte `json:"-"`
}

var _ fmt.Formatter = Target{}

// Format prints what is no secret, whatever the verb.
func (t Target) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{Name:%q Type:%q Labels:%q Content:(%d bytes)}", t.Name, t.Type, t.Labels, len(t.Content))
}

// Kubeconfig returns the kubeconfig of a target that is a Kubernetes cluster. The error names the Target and holds no part
// of its content.
func (t *Target) Kubeconfig() ([]byte, error) {
	if t == nil {
		return nil, &Error{
			Codes:  []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
			Reason: ReasonTargetMissing,
			Err:    errors.New("spec.target: this deployer needs a Target of type " + string(v1alpha1.KubernetesClusterTargetType)),
		}
	}
	var content struct {
		Kubeconfig string `json:"kubeconfig"`
	}
	if err := json.Unmarshal(t.Content, &content); err != nil || content.Kubeconfig == "" {
		return nil, ConfigurationError(ReasonTargetInvalid, "Target %q of type %q holds no kubeconfig", t.Name, t.Type)
	}
	return []byte(content.Kubeconfig), nil
}

// operationResolveTarget is what the host calls it, too.
const operationResolveTarget = "ResolveTarget"

// resolvedFromWire reads the host's answer to a question for a Target.
func resolvedFromWire(name string, in *deployerv1.ResolvedTarget) (*Target, error) {
	if in.GetError() != nil {
		return nil, errorFromWire(operationResolveTarget, fmt.Sprintf("Target %q cannot be used; the host does not say why", name), in.GetError())
	}
	target, err := targetFromWire(in.GetTarget())
	if err == nil && target == nil {
		err = errors.New("the host has answered with neither a Target nor an error")
	}
	if err != nil {
		return nil, internalProblem(fmt.Errorf("resolve Target %q: %w", name, err))
	}
	return target, nil
}

// targetFromWire reads a ResolvedTarget; empty bytes are an item without a target. The error holds nothing of the document, which has
// credentials in it.
func targetFromWire(document []byte) (*Target, error) {
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
	return &Target{
		Name:        resolved.Target.Name,
		Type:        resolved.Target.Spec.Type,
		Labels:      resolved.Target.Labels,
		Annotations: resolved.Target.Annotations,
		Content:     []byte(resolved.Content),
	}, nil
}
