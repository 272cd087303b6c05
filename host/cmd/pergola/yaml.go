package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// printYAML prints what is JSON in YAML.
func printYAML(out io.Writer, value any) error {
	document, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	text, err := yamlOf(document)
	if err != nil {
		return err
	}
	return printText(out, text)
}

// yamlOf writes a JSON document in YAML, as kubectl does; no document is no text.
func yamlOf(document json.RawMessage) (string, error) {
	if document == nil {
		return "", nil
	}
	var value any
	if err := utiljson.Unmarshal(document, &value); err != nil {
		return "", fmt.Errorf("read JSON: %w", err)
	}
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := errors.Join(encoder.Encode(value), encoder.Close()); err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return out.String(), nil
}
