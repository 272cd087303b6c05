package component

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// The schemas of descriptors.
const (
	schemaV2 = "v2"
	schemaV3 = "ocm.software/v3alpha1"
	kindV3   = "ComponentVersion"
)

// fields are the fields of an object.
type fields map[string]json.RawMessage

// toV2 returns a descriptor as JSON in the form of schema v2, as containers get it. Errors are clauses about "it".
func toV2(document []byte) (json.RawMessage, error) {
	var found struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Meta       struct {
			SchemaVersion string `json:"schemaVersion"`
		} `json:"meta"`
		Metadata           fields          `json:"metadata"`
		RepositoryContexts json.RawMessage `json:"repositoryContexts"`
		Spec               fields          `json:"spec"`
		Signatures         json.RawMessage `json:"signatures"`
	}
	content, err := decode(document, &found)
	switch schema := found.Meta.SchemaVersion; {
	case err != nil:
		return nil, err
	case found.APIVersion != "" && schema != "":
		return nil, errors.New("it has an apiVersion and a meta.schemaVersion, of which a descriptor has one")
	case schema == schemaV2:
		return content, nil
	case found.APIVersion != schemaV3 || found.Kind != kindV3:
		return nil, fmt.Errorf("it has the schema %s, but expected meta.schemaVersion %s, or apiVersion %s and kind %s",
			shown(found.APIVersion+schema), schemaV2, schemaV3, kindV3)
	}
	component := fields{}
	maps.Copy(component, found.Metadata)
	if component["provider"], err = providerV2(found.Metadata["provider"]); err != nil {
		return nil, err
	}
	lists := fields{
		"repositoryContexts": found.RepositoryContexts, "resources": found.Spec["resources"],
		"sources": found.Spec["sources"], "componentReferences": found.Spec["references"],
	}
	for field, list := range lists {
		if isNull(list) { // schema v2 requires the field
			list = json.RawMessage("[]")
		}
		component[field] = list
	}
	descriptor := map[string]any{"meta": map[string]string{"schemaVersion": schemaV2}, "component": component}
	if !isNull(found.Signatures) {
		descriptor["signatures"] = found.Signatures
	}
	return json.Marshal(descriptor)
}

// providerV2 returns a provider as a text: its name, or itself as JSON if it has more.
func providerV2(provider json.RawMessage) (json.RawMessage, error) {
	if isNull(provider) {
		return json.RawMessage(`""`), nil
	}
	var found fields
	if unmarshal(provider, &found) != nil {
		return nil, errors.New("its field metadata.provider is no object with a name")
	}
	if len(found) == 1 && !isNull(found[attributeName]) {
		return found[attributeName], nil
	}
	return json.Marshal(string(provider))
}

func isNull(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }
