// Package schema judges the JSON schemas of a plugin.
package schema

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// Flaws returns the flaws of the schemas in the description of a plugin, and of documents by them: its own
// configuration, empty for none, and provider configurations by type.
func Flaws(info *deployerv1.GetInfoResponse, configuration []byte, configs map[string][][]byte) (flaws []string) {
	judge := func(what string, document []byte, documents ...[]byte) {
		parsed, err := parse(document)
		if err != nil {
			flaws = append(flaws, fmt.Sprintf("the schema of %s: %v", what, err))
			return
		}
		for _, d := range documents {
			if err := parsed.check(d); err != nil {
				flaws = append(flaws, fmt.Sprintf("%s is not valid by its schema: %v", what, err))
			}
		}
	}
	if document := info.GetConfigurationSchema(); len(document) > 0 && len(configuration) > 0 {
		judge("the plugin's configuration", document, configuration)
	} else if len(document) > 0 {
		judge("the plugin's configuration", document)
	}
	for itemType, document := range info.GetProviderConfigurationSchemas() {
		judge(fmt.Sprintf("the provider configuration of type %.100q", itemType), document, configs[itemType]...)
	}
	return flaws
}

// schema is a JSON schema.
type schema struct{ compiled *jsonschema.Schema }

// nowhere loads nothing: a schema of a plugin is complete.
type nowhere struct{}

// Load implements jsonschema.URLLoader.
func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is outside of the schema; expected a schema without references to others", url)
}

// parse reads a schema. The error says why it is none.
func parse(document []byte) (*schema, error) {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	if _, ok := parsed.(map[string]any); !ok {
		return nil, errors.New("it is no JSON object")
	}
	const name = "plugin:schema"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(nowhere{})
	if err := compiler.AddResource(name, parsed); err != nil {
		return nil, fmt.Errorf("it is no JSON schema: %w", err)
	}
	compiled, err := compiler.Compile(name)
	if err != nil {
		return nil, fmt.Errorf("it is no JSON schema: %w", err)
	}
	return &schema{compiled}, nil
}

// check returns why a document, YAML or JSON, is not valid against the schema; nil if it is.
func (s *schema) check(document []byte) error {
	converted, err := yaml.YAMLToJSON(document)
	if err != nil {
		return fmt.Errorf("it is no YAML: %w", err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(converted))
	if err != nil {
		return fmt.Errorf("it is no JSON: %w", err)
	}
	return s.compiled.Validate(parsed)
}
