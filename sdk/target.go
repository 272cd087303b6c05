package sdk

import (
	"bytes"
	"strings"

	"github.com/pergola-deploy/pergola/proto/wire"
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
	unknown, wrong, err := document.DecodeText(t.Content, into)
	return t.invalid(unknown, wrong, err)
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
	_, wrong, err := document.DecodeText(t.Content, &content)
	if err := t.invalid(nil, wrong, err); err != nil {
		return nil, err
	}
	if content.Kubeconfig == "" {
		return nil, ConfigurationError(ReasonTargetInvalid, "Target %q of type %q holds no kubeconfig", t.Name, t.Type)
	}
	return []byte(content.Kubeconfig), nil
}

// invalid returns the error about unreadable content, without its values; nil without any problem.
func (t *Target) invalid(unknown []document.Unread, wrong []document.Problem, err error) error {
	var texts []string
	switch {
	case len(bytes.TrimSpace(t.Content)) == 0:
		texts = append(texts, "it is empty: set spec.config or spec.secretRef of the Target")
	case err != nil:
		// The text of the error may quote a value.
		texts = append(texts, "expected YAML or JSON with each field once and valid values")
	}
	for _, p := range wrong {
		texts = append(texts, strings.TrimPrefix(p.Field+": expected "+p.Expected, ": "))
	}
	texts = append(texts, wire.Each(unknown, document.Unread.Text)...)
	if len(texts) == 0 {
		return nil
	}
	return ConfigurationError(ReasonTargetInvalid,
		"content of Target %q of type %q: %s", t.Name, t.Type, strings.Join(texts, "; "))
}
