// Package settings reads the configuration document of the manifest plugin itself, written by an operator.
package settings

import (
	_ "embed" // for Schema

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/pluginconfig"
)

const (
	// APIVersion of the document.
	APIVersion = "manifest.pergola.dev/v1alpha1"
	// Kind of the document.
	Kind = "ManifestConfiguration"
)

// Schema is the JSON schema of the document.
//
//go:embed schema.json
var Schema []byte

// Settings are the document. In the HostConfiguration its place is plugins.manifest.config.
type Settings struct {
	metav1.TypeMeta `json:",inline"`

	// Strict fails a job for an unknown field of its provider configuration. With false the field is ignored, as by
	// Landscaper, and named in a warning event. Defaults to true.
	Strict bool `json:"strict,omitempty"`
}

// Default returns the settings of an empty document.
func Default() Settings {
	return Settings{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind}, Strict: true}
}

// Load reads a document, YAML or JSON, strictly; empty for defaults. It returns all problems at once.
func Load(document []byte) (Settings, []sdk.Problem) {
	s := Default()
	problems := pluginconfig.Load(document, &s, &s.TypeMeta, func(*pluginconfig.Problems) {})
	return s, problems
}
