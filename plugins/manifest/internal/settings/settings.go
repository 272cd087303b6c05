// Package settings reads the configuration document of the manifest plugin itself, written by an operator.
package settings

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/settingsfile"
	"github.com/pergola-deploy/pergola/sdk"
)

const (
	// APIVersion of the document.
	APIVersion = "manifest.pergola.dev/v1alpha1"
	// Kind of the document.
	Kind = "ManifestConfiguration"
)

// ManifestConfiguration is the document. In the HostConfiguration its place is plugins.manifest.config.
type ManifestConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Strict fails a job for an unknown field of its provider configuration. With false the field is ignored, as by
	// Landscaper, and named in a warning event. Defaults to true.
	Strict *bool `json:"strict,omitempty"`
}

// Settings are the values of a document, with all defaults.
type Settings struct {
	Strict bool
}

// Default returns the settings of an empty document.
func Default() Settings { return Settings{Strict: true} }

// Load reads a document, YAML or JSON, strictly; empty for defaults. It returns all problems at once, but a value of
// the wrong type alone.
func Load(document []byte) (Settings, []sdk.Problem) {
	s := Default()
	if len(document) == 0 {
		return s, nil
	}
	var c ManifestConfiguration
	problems, ok := settingsfile.Decode(document, &c)
	if !ok {
		return s, problems
	}
	problems.CheckKind(c.TypeMeta, APIVersion, Kind)
	if c.Strict != nil {
		s.Strict = *c.Strict
	}
	return s, problems
}
