package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
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

// yamlLines are the lines of a JSON document in YAML; none for no document.
func yamlLines(document json.RawMessage) ([]string, error) {
	if document == nil {
		return nil, nil
	}
	text, err := yamlOf(document)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n"), nil
}

// yamlOf writes a JSON document in YAML as kubectl does, with its keys in order and each number digit by digit. JSON is not read as if it
// were YAML: control characters, and surrogate pairs, are no YAML as JSON has them.
func yamlOf(document []byte) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", fmt.Errorf("read JSON: %w", err)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(yamlNode(value)); err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return out.String(), nil
}

// yamlNode is a value of a JSON document.
func yamlNode(value any) *yaml.Node {
	switch v := value.(type) {
	case map[string]any:
		node := &yaml.Node{Kind: yaml.MappingNode}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			node.Content = append(node.Content, yamlText(key), yamlNode(v[key]))
		}
		return node
	case []any:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		for _, inner := range v {
			node.Content = append(node.Content, yamlNode(inner))
		}
		return node
	case string:
		return yamlText(v)
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	default: // a number as it was written, or true or false
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v)}
	}
}

// yamlText is a text: in lines if it has some, with escapes if it has characters that nobody sees, and in quotes if it looks like something
// else.
func yamlText(text string) *yaml.Node {
	const merge = "<<" // which the library leaves bare
	hidden := strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
	node := &yaml.Node{}
	if err := node.Encode(text); err != nil || hidden || text == merge {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Style: yaml.DoubleQuotedStyle}
	}
	return node
}
