package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/host/internal/jsonnode"
)

// Tags of scalars, as yaml.v3 resolves them.
const (
	tagText  = "!!str"
	tagBool  = "!!bool"
	tagNull  = "!!null"
	tagInt   = "!!int"
	tagFloat = "!!float"
	tagTime  = "!!timestamp"
	tagMerge = "!!merge"
)

// parseDocument returns the one document in a text as it was written: duplicate keys are kept and aliases are not followed, so
// that a small text stays small. It is nil if the text is empty or says null.
func parseDocument(text []byte) (*yaml.Node, error) {
	root, err := parseText(text)
	if err != nil || root == nil || isNull(root) {
		return nil, err
	}
	return root, nil
}

func parseText(text []byte) (*yaml.Node, error) {
	if json.Valid(text) {
		return jsonnode.Parse(text)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, another yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil //nolint:nilnil // there is no document
	} else if err != nil {
		return nil, syntaxError(err)
	}
	if err := decoder.Decode(&another); err == nil {
		return nil, errors.New("holds several YAML documents; expected one")
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(err)
	}
	if len(document.Content) != 1 {
		return nil, nil //nolint:nilnil // there is no document
	}
	return document.Content[0], nil
}

// syntaxError keeps what the parser says, without its name. It may quote a name of any length.
func syntaxError(err error) error {
	return fmt.Errorf("is no valid YAML: %s", shortened(strings.TrimPrefix(err.Error(), "yaml: "), 2*longest))
}

// maxLevels bounds how deep objects and lists are nested. Without it the paths of a small text would fill the memory.
const maxLevels = 100

// check notes everything below a node that is no plain tree of objects, lists and scalars as JSON knows them, or that parsers
// differ about. level is how deep the node is nested itself.
func check(node *yaml.Node, path *field.Path, level int, found *problems) {
	switch {
	case node.Kind == yaml.AliasNode:
		found.at(path, "YAML aliases are not allowed; write the value out")
	case node.Style&yaml.TaggedStyle != 0:
		found.at(path, "YAML tags are not allowed; quotes make a value a text")
	case level > maxLevels:
		found.at(path, "is nested deeper than %d levels", maxLevels)
	case node.Kind == yaml.SequenceNode:
		for i, item := range node.Content {
			check(item, path.Index(i), level+1, found)
		}
	case node.Kind == yaml.MappingNode:
		checkObject(node, path, level, found)
	default:
		checkScalar(node, path, found)
	}
}

func checkObject(node *yaml.Node, path *field.Path, level int, found *problems) {
	seen := make(map[string]bool, len(node.Content)/2)
	for key, value := range pairs(node) {
		if !isKey(key) {
			found.at(path, "expected texts as keys, but found %s; quotes make a key a text", describe(key))
			continue
		}
		inner := child(path, key.Value)
		if seen[key.Value] {
			found.at(inner, "appears twice; leave one of them")
		}
		seen[key.Value] = true
		check(value, inner, level+1, found)
	}
}

func checkScalar(node *yaml.Node, path *field.Path, found *problems) {
	switch node.ShortTag() {
	case tagNull, tagBool, tagTime:
	case tagText:
		if isOldBool(node) {
			found.at(path, "some parsers read %s as true or false; write that, or quotes around a text", node.Value)
		}
	case tagInt, tagFloat:
		if !json.Valid([]byte(node.Value)) {
			// Not what was found: in the configuration of a plugin it may be a password.
			found.at(path, "expected a number as JSON writes it, in decimal digits without leading zeros; quotes make it a text")
		}
	default:
		found.at(path, "expected a text, a number, true or false, but found %s", describe(node))
	}
}

// isKey tells whether a node can be the key of a JSON object.
func isKey(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Style&yaml.TaggedStyle == 0 && node.ShortTag() == tagText && !isOldBool(node)
}

// isOldBool tells whether a text is a truth value to YAML 1.1, as in Kubernetes' own parser.
func isOldBool(node *yaml.Node) bool {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if node.Style&quoted != 0 {
		return false
	}
	switch strings.ToLower(node.Value) {
	case "yes", "no", "on", "off":
		return true
	default:
		return false
	}
}

// pairs iterates over keys and values of an object.
func pairs(node *yaml.Node) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(node.Content); i += 2 {
			if !yield(node.Content[i], node.Content[i+1]) {
				return
			}
		}
	}
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == tagNull
}

// describe says what a node is, as part of a sentence.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.AliasNode:
		return "an alias"
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	default:
		return describeScalar(node)
	}
}

// describeWhole says what a whole document is, and nothing of what it holds: one that is no object may be any file, such as that of a token.
func describeWhole(root *yaml.Node) string {
	if root.Kind == yaml.ScalarNode {
		return "a single value"
	}
	return describe(root)
}

func describeScalar(node *yaml.Node) string {
	if isOldBool(node) {
		return node.Value
	}
	switch node.ShortTag() {
	case tagText, tagTime:
		return "the text " + quote(node.Value)
	case tagInt, tagFloat:
		return "the number " + shortened(node.Value, longest)
	case tagMerge:
		return "a merge key"
	case tagNull:
		return "nothing"
	case tagBool:
		return node.Value
	default:
		return "a value that is none in JSON"
	}
}
