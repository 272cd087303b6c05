package sdk

import (
	"bytes"
	"strings"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/internal/document"
)

// Decode reads the content of a Target of the deployer's own type, YAML or JSON, into a struct, strictly: an unknown
// field, a duplicate one and a wrong type are errors, each with its field, and all are reported at once. The error is
// an *Error with ReasonTargetMissing, of a nil Target, or ReasonTargetInvalid; it has no value of the content and can
// be returned as it is.
func (t *Target) Decode(into any) error {
	if t == nil {
		return ConfigurationError(ReasonTargetMissing, "spec.target: this deployer needs a Target")
	}
	return t.decode(into, false)
}

// Kubeconfig returns the kubeconfig of a Kubernetes cluster. The error is that of Decode. Other fields of the content
// do not count.
func (t *Target) Kubeconfig() ([]byte, error) {
	if t == nil {
		return nil, ConfigurationError(ReasonTargetMissing,
			"spec.target: this deployer needs a Target of type %s", v1alpha1.KubernetesClusterTargetType)
	}
	var content struct {
		Kubeconfig string `json:"kubeconfig"`
	}
	if err := t.decode(&content, true); err != nil {
		return nil, err
	}
	if content.Kubeconfig == "" {
		return nil, ConfigurationError(ReasonTargetInvalid, "Target %q of type %q holds no kubeconfig", t.Name, t.Type)
	}
	return []byte(content.Kubeconfig), nil
}

// decode reads the content. Its error has no values of it.
func (t *Target) decode(into any, ignoreUnknown bool) error {
	problems := []string{"it is empty: set spec.config or spec.secretRef of the Target"}
	if len(bytes.TrimSpace(t.Content)) > 0 {
		problems = document.DecodeSecret(t.Content, into, ignoreUnknown)
	}
	if len(problems) == 0 {
		return nil
	}
	return ConfigurationError(ReasonTargetInvalid,
		"content of Target %q of type %q: %s", t.Name, t.Type, strings.Join(problems, "; "))
}
