package target

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pergola-deploy/pergola/host/internal/text"
)

// maxLevels bounds how deep objects and lists are nested. Without it the paths of a small text would fill the memory.
const maxLevels = 100

// parse returns the one document in a text, JSON or YAML, in the types of encoding/json with json.Number. Ambiguous
// content is a problem because parsers differ about it: keys that are equal or differ only in case, keys other than
// plain text, merge keys, aliases and deep nesting. field is the name of the text in problems. They quote no value.
func parse(text []byte, field string) (any, []problem) {
	// Not all JSON is YAML, such as surrogate pairs and long keys.
	if json.Valid(text) {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		p := &parser{}
		value := p.value(jsonNode(decoder), field, 0)
		return value, p.problems
	}
	var documents []*yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		document := &yaml.Node{}
		err := decoder.Decode(document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || len(document.Content) != 1 {
			// The error would quote the text.
			return nil, []problem{invalid(field, "is neither valid JSON nor valid YAML")}
		}
		documents = append(documents, document.Content[0])
	}
	switch len(documents) {
	case 0:
		return nil, []problem{invalid(field, "is empty")}
	case 1:
		p := &parser{}
		value := p.value(documents[0], field, 0)
		return value, p.problems
	default:
		return nil, []problem{invalid(field, "holds %d YAML documents; expected one", len(documents))}
	}
}

// jsonNode reads the next value, or key, of a valid text as a node of YAML.
func jsonNode(from *json.Decoder) *yaml.Node {
	token, _ := from.Token() // the text is valid
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
	switch typed := token.(type) {
	case json.Delim:
		node.Kind = yaml.SequenceNode
		if typed == '{' {
			node.Kind = yaml.MappingNode
		}
		for from.More() {
			node.Content = append(node.Content, jsonNode(from))
		}
		_, _ = from.Token() // the closing bracket
	case nil:
		node.Tag = "!!null"
	case bool:
		node.Tag, node.Value = "!!bool", strconv.FormatBool(typed)
	case json.Number:
		node.Tag, node.Value = "!!float", typed.String()
	case string:
		node.Value = typed
	}
	return node
}

// parseObject is parse for an object.
func parseObject(text []byte, field string) (map[string]any, []problem) {
	value, problems := parse(text, field)
	if len(problems) > 0 {
		return nil, problems
	}
	return asObject(value, field)
}

func asObject(value any, field string) (map[string]any, []problem) {
	if object, ok := value.(map[string]any); ok {
		return object, nil
	}
	var object map[string]any
	return nil, decode(value, &object, field)
}

// parser makes values of nodes, and notes ambiguities.
type parser struct {
	problems []problem
}

// note keeps a problem; of a content with very many the others tell nothing new.
func (p *parser) note(one problem) {
	if len(p.problems) < maxProblems {
		p.problems = append(p.problems, one)
	}
}

// value returns the value of a node at some level. Aliases are not followed, so that a small text stays small.
func (p *parser) value(node *yaml.Node, field string, level int) any {
	switch {
	case node.Kind == yaml.AliasNode:
		p.note(invalid(field, "YAML aliases are not allowed; write the value out"))
		return nil
	case level > maxLevels:
		p.note(invalid(field, "is nested deeper than %d levels", maxLevels))
		return nil
	case node.Kind == yaml.SequenceNode:
		list := make([]any, 0, len(node.Content))
		for _, entry := range node.Content {
			list = append(list, p.value(entry, indexed(field, len(list)), level+1))
		}
		return list
	case node.Kind != yaml.MappingNode:
		return scalar(node)
	}
	object, seen := map[string]any{}, map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			p.note(invalid(field, "expected texts as keys, found a merge key or an object"))
			continue
		}
		inner := join(field, key.Value)
		if seen[fold(key.Value)] {
			p.note(invalid(inner, "the key appears twice (keys that differ only in case count as equal)"))
		}
		seen[fold(key.Value)] = true
		object[key.Value] = p.value(value, inner, level+1)
	}
	return object
}

// scalar returns the value of a node. A value unknown to JSON becomes a text, and a number keeps all of its digits.
func scalar(node *yaml.Node) any {
	switch tag := node.ShortTag(); {
	case tag == "!!null":
		return nil
	case tag == "!!bool":
		if value, err := strconv.ParseBool(node.Value); err == nil {
			return value
		}
	case (tag == "!!int" || tag == "!!float") && json.Valid([]byte(node.Value)):
		return json.Number(node.Value)
	}
	return node.Value
}

// get returns a field of an object regardless of the case of its name; nil if it is absent, or value no object.
func get(value any, name string) any {
	object, _ := value.(map[string]any)
	for key, inner := range object {
		if fold(key) == fold(name) {
			return inner
		}
	}
	return nil
}

// isEmpty reports whether a value is null, an empty text or an empty collection.
func isEmpty(value any) bool {
	v := reflect.ValueOf(value)
	// A number is a json.Number, a kind of string.
	return value == nil || v.Kind() != reflect.Bool && v.Len() == 0
}

// decode reads a value into a struct, regardless of the case of its keys.
func decode(value, into any, field string) []problem {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return []problem{mismatch(err, field)}
	}
	return nil
}

// mismatch is the problem of a value of the wrong type, from the error of a JSON decoder.
func mismatch(err error, field string) problem {
	path, sentence, ok := text.Mismatch(err, nil)
	if !ok {
		return invalid(field, "is no valid JSON")
	}
	for name := range strings.SplitSeq(path, ".") {
		if name != "" {
			field = join(field, name)
		}
	}
	return invalid(field, "%s", sentence)
}

// fold returns the common form of keys considered equal by a case-insensitive parser, such as encoding/json: it takes
// the long s and the Kelvin sign for the letters s and k.
func fold(key string) string {
	return strings.ToLower(strings.ToUpper(key))
}

// join appends a key to a field. Keys may be of any length and content; they are quoted unless they look like a name.
func join(field, key string) string {
	plain := len(key) > 0 && len(key) <= maxName && !strings.ContainsFunc(key, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", r)
	})
	switch {
	case !plain:
		return field + "[" + quote(key) + "]"
	case field == "":
		return key
	default:
		return field + "." + key
	}
}

// indexed appends the index of an item of a list to a field.
func indexed(field string, index int) string { return fmt.Sprintf("%s[%d]", field, index) }

// maxName bounds quoted names.
const maxName = 64

func quote(name string) string { return strconv.Quote(text.Cut(name, maxName)) }
