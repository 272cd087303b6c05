package target

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pergola-deploy/pergola/host/internal/jsonnode"
)

// Tags of scalars, as yaml.v3 resolves them.
const (
	tagText  = "!!str"
	tagBool  = "!!bool"
	tagNull  = "!!null"
	tagInt   = "!!int"
	tagFloat = "!!float"
	tagMerge = "!!merge"
)

// errSyntax says that a text is no JSON and no YAML. The errors of the parsers are dropped: they quote the text.
var errSyntax = errors.New("is neither valid JSON nor valid YAML")

// parse returns the documents in a text, in the form that they were written in: duplicate keys are kept and aliases are not
// followed, so that a small text stays small. With errSyntax come the documents before the mistake.
func parse(text []byte) ([]*yaml.Node, error) {
	if json.Valid(text) {
		document, err := jsonnode.Parse(text)
		if err != nil {
			return nil, errSyntax
		}
		return []*yaml.Node{document}, nil
	}
	var documents []*yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil || len(document.Content) != 1 {
			return documents, errSyntax
		}
		documents = append(documents, document.Content[0])
	}
}

// readObject returns the one object that a text consists of, if all parsers read it alike; field is the name of the text.
func readObject(text []byte, field string) (*yaml.Node, []Problem) {
	documents, err := parse(text)
	if err != nil {
		return nil, []Problem{invalid(field, "%s", err.Error())}
	}
	if len(documents) == 0 {
		return nil, []Problem{invalid(field, "is empty")}
	}
	if len(documents) > 1 {
		return nil, []Problem{invalid(field, "holds %d YAML documents; expected one", len(documents))}
	}
	if documents[0].Kind != yaml.MappingNode {
		return nil, []Problem{invalid(field, "expected an object, found %s", kindOf(documents[0]))}
	}
	if problems := ambiguities(documents[0], field, 0); len(problems) > 0 {
		return nil, problems
	}
	return documents[0], nil
}

// maxLevels bounds how deep objects and lists are nested. Without it the paths of a small text would fill the memory.
const maxLevels = 100

// ambiguities lists what parsers differ about: keys that are equal or differ only in case, keys that are no plain text, merge
// keys, aliases and deep nesting. A node without any is a finite tree. level is how deep the node is nested itself.
func ambiguities(node *yaml.Node, field string, level int) []Problem {
	if node.Kind == yaml.AliasNode {
		return []Problem{invalid(field, "YAML aliases are not allowed; write the value out")}
	}
	if level > maxLevels {
		return []Problem{invalid(field, "is nested deeper than %d levels", maxLevels)}
	}
	var problems []Problem
	if node.Kind == yaml.SequenceNode {
		for i, item := range node.Content {
			problems = append(problems, ambiguities(item, fmt.Sprintf("%s[%d]", field, i), level+1)...)
		}
		return problems
	}
	seen := make(map[string]bool, len(node.Content)/2)
	for key, value := range pairs(node) {
		if key.Kind != yaml.ScalarNode || key.ShortTag() == tagMerge {
			problems = append(problems, invalid(field, "expected texts as keys, found a merge key or an object"))
			continue
		}
		inner := join(field, key.Value)
		if seen[fold(key.Value)] {
			problems = append(problems, invalid(inner, "the key appears twice (keys that differ only in case count as equal)"))
		}
		seen[fold(key.Value)] = true
		problems = append(problems, ambiguities(value, inner, level+1)...)
	}
	return problems
}

// pairs iterates over keys and values of an object; over nothing if node is nil or no object.
func pairs(node *yaml.Node) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		if node == nil || node.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			if !yield(node.Content[i], node.Content[i+1]) {
				return
			}
		}
	}
}

// lookup returns a field of an object whatever the case of its name; nil if the field is not there or empty, or node no object.
func lookup(node *yaml.Node, name string) *yaml.Node {
	for key, value := range pairs(node) {
		if fold(key.Value) == fold(name) && !isEmpty(value) {
			return value
		}
	}
	return nil
}

// present returns a field of an object whatever the case of its name, also if it is empty; nil if it is not there or null.
func present(node *yaml.Node, name string) *yaml.Node {
	for key, value := range pairs(node) {
		if fold(key.Value) == fold(name) && (value.Kind != yaml.ScalarNode || value.ShortTag() != tagNull) {
			return value
		}
	}
	return nil
}

// isEmpty tells whether a value is null, an empty text or an empty collection.
func isEmpty(node *yaml.Node) bool {
	switch node.Kind {
	case yaml.ScalarNode:
		return node.ShortTag() == tagNull || node.Value == ""
	case yaml.MappingNode, yaml.SequenceNode:
		return len(node.Content) == 0
	default:
		return false
	}
}

func isText(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == tagText
}

func kindOf(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "an object"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case isText(node):
		return "a text"
	case node.ShortTag() == tagInt || node.ShortTag() == tagFloat:
		return "a number (quotes make it a text)"
	case node.ShortTag() == tagBool:
		return "true or false (quotes make it a text)"
	default:
		return "something else"
	}
}

// plain returns a node without ambiguities as what encoding/json takes. A scalar that JSON does not know becomes a text.
func plain(node *yaml.Node) any {
	switch node.Kind {
	case yaml.MappingNode:
		object := make(map[string]any, len(node.Content)/2)
		for key, value := range pairs(node) {
			object[key.Value] = plain(value)
		}
		return object
	case yaml.SequenceNode:
		list := make([]any, 0, len(node.Content))
		for _, item := range node.Content {
			list = append(list, plain(item))
		}
		return list
	default:
		return plainScalar(node)
	}
}

func plainScalar(node *yaml.Node) any {
	switch node.ShortTag() {
	case tagNull:
		return nil
	case tagBool:
		if value, err := strconv.ParseBool(node.Value); err == nil {
			return value
		}
	case tagInt, tagFloat:
		// A number is passed digit by digit, so that none is lost.
		if json.Valid([]byte(node.Value)) {
			return json.Number(node.Value)
		}
	}
	return node.Value
}

// fold returns the form of a key in which all keys are equal that a parser which ignores case takes for equal, such as
// encoding/json, for which the long s and the Kelvin sign are the letters s and k.
func fold(key string) string {
	return strings.ToLower(strings.ToUpper(key))
}

// join appends a key to a field. Keys may be of any length and content; they are quoted unless they look like a name.
func join(field, key string) string {
	const longest = 64
	plainName := len(key) > 0 && len(key) <= longest && !strings.ContainsFunc(key, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", r)
	})
	switch {
	case !plainName:
		return field + "[" + quote(key) + "]"
	case field == "":
		return key
	default:
		return field + "." + key
	}
}

// quote quotes a name and shortens it if it is unusually long.
func quote(name string) string {
	const longest = 64
	if runes := []rune(name); len(runes) > longest {
		name = string(runes[:longest]) + "..."
	}
	return strconv.Quote(name)
}
