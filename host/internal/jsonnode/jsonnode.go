// Package jsonnode reads JSON as nodes of YAML, so that one walk over nodes checks documents of both kinds. A YAML parser will not
// do: not all JSON is YAML 1.1, such as surrogate pairs and long keys.
package jsonnode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Parse returns the value that a text consists of, in the form in which it was written: duplicate keys are kept, numbers have their
// digits, tagged !!float. Scalars are marked as quoted, because no parser reads them as anything else. The text must be valid, as
// json.Valid has it, which also bounds its depth.
func Parse(text []byte) (*yaml.Node, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	node, err := parse(decoder)
	if err != nil {
		return nil, fmt.Errorf("parse JSON: %w", err)
	}
	return node, nil
}

func parse(decoder *json.Decoder) (*yaml.Node, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	scalar := func(tag, value string) (*yaml.Node, error) {
		return &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Tag: tag, Value: value}, nil
	}
	switch value := token.(type) {
	case string:
		return scalar("!!str", value)
	case json.Number:
		return scalar("!!float", value.String())
	case bool:
		return scalar("!!bool", strconv.FormatBool(value))
	case nil:
		return scalar("!!null", "null")
	}
	collection := &yaml.Node{Kind: yaml.SequenceNode}
	if token == json.Delim('{') {
		collection.Kind = yaml.MappingNode
	}
	for decoder.More() { // keys and values of an object follow each other here as they do in a mapping node
		item, err := parse(decoder)
		if err != nil {
			return nil, err
		}
		collection.Content = append(collection.Content, item)
	}
	_, err = decoder.Token() // the closing bracket
	return collection, err
}
