package sdk

import (
	"encoding/json"
	"errors"
	"fmt"

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
	// Content is the target's content, for most types JSON or YAML. It holds credentials: it belongs into no log and no error.
	Content []byte
}

// Kubeconfig returns the kubeconfig of a target that is a Kubernetes cluster. The error names the Target and holds no part
// of its content.
func (t *Target) Kubeconfig() ([]byte, error) {
	if t == nil {
		return nil, &Error{
			Codes:  []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
			Reason: "TargetMissing",
			Err:    errors.New("spec.target: this deployer needs a Target of type " + string(v1alpha1.KubernetesClusterTargetType)),
		}
	}
	var content struct {
		Kubeconfig string `json:"kubeconfig"`
	}
	if err := json.Unmarshal(t.Content, &content); err != nil || content.Kubeconfig == "" {
		return nil, ConfigurationError("TargetInvalid", "Target %q of type %q holds no kubeconfig", t.Name, t.Type)
	}
	return []byte(content.Kubeconfig), nil
}

// targetFromWire reads a ResolvedTarget; empty bytes are an item without a target.
func targetFromWire(document []byte) (*Target, error) {
	if len(document) == 0 {
		return nil, nil //nolint:nilnil // no target is an ordinary case and no error
	}
	var resolved v1alpha1.ResolvedTarget
	if err := json.Unmarshal(document, &resolved); err != nil {
		return nil, fmt.Errorf("decode target: %w", err)
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
