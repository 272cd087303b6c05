package lockfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxBytes bounds a lock file, and a signature. An entry has a few hundred bytes.
const maxBytes = 1 << 20

// Parse reads a lock file, strictly: unknown fields, duplicate keys, aliases, tags and values of another type are errors. The order of
// plugins and types does not matter. source is what errors call the text, such as the name of the file. An error is an *Error with
// everything that is wrong.
func Parse(source string, text []byte) (*File, error) {
	found := &problems{}
	root, err := parseYAML(text)
	if err != nil {
		found.at(nil, "%s", err.Error())
	}
	var entries []entry
	if root != nil {
		entries = found.document(root)
	}
	return build(source, entries, found)
}

// parseYAML returns the one document of a text, as it was written.
func parseYAML(text []byte) (*yaml.Node, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("is larger than %d bytes", maxBytes)
	}
	if !utf8.Valid(text) {
		return nil, errors.New("is not UTF-8")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, another yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) || err == nil && len(document.Content) != 1 {
		return nil, errors.New("is empty")
	} else if err != nil {
		return nil, syntaxError(err)
	}
	if err := decoder.Decode(&another); err == nil {
		return nil, errors.New("holds several YAML documents; expected one")
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(err)
	}
	return document.Content[0], nil
}

// syntaxError keeps what the parser says, without its name. It may quote a name of any length.
func syntaxError(err error) error {
	return fmt.Errorf("is no valid YAML: %s", shortened(strings.TrimPrefix(err.Error(), "yaml: ")))
}

func (p *problems) document(root *yaml.Node) []entry {
	fields, ok := p.object(root, nil, "apiVersion", "kind", "plugins")
	if !ok {
		return nil
	}
	if others := otherKind(fields); len(others) > 0 {
		// What is right in that document may be wrong in this one.
		*p = problems{}
		for _, other := range others {
			p.at(field.NewPath(other.field), "expected %q, but found %s", other.want, quote(other.got))
		}
		return nil
	}
	p.text(fields["apiVersion"], field.NewPath("apiVersion"))
	p.text(fields["kind"], field.NewPath("kind"))
	var entries []entry
	at := field.NewPath("plugins")
	for i, node := range p.items(fields["plugins"], at) {
		if plugin, ok := p.plugin(node, at.Index(i)); ok {
			entries = append(entries, entry{Plugin: plugin, at: at.Index(i)})
		}
	}
	return entries
}

// difference is a field that says that the document is something else.
type difference struct{ field, want, got string }

// otherKind returns what says so. A document that does not say what it is is read as one of ours.
func otherKind(fields map[string]*yaml.Node) []difference {
	var differences []difference
	for _, d := range []difference{{field: "apiVersion", want: APIVersion}, {field: "kind", want: Kind}} {
		if node := fields[d.field]; node != nil && isText(node) && node.Value != d.want {
			d.got = node.Value
			differences = append(differences, d)
		}
	}
	return differences
}

// plugin reads an entry. If it is one at all its fields have been read as far as possible.
func (p *problems) plugin(node *yaml.Node, at *field.Path) (plugin Plugin, ok bool) {
	fields, ok := p.object(node, at, "file", "name", "version", "types", "hookedTypes", "sha256")
	if !ok {
		return plugin, false
	}
	plugin.File, _ = p.text(fields["file"], at.Child("file"))
	plugin.Name, _ = p.text(fields["name"], at.Child("name"))
	plugin.Version, _ = p.text(fields["version"], at.Child("version"))
	plugin.Types = p.texts(fields["types"], at.Child("types"))
	if hooked := fields["hookedTypes"]; hooked != nil {
		plugin.HookedTypes = p.texts(hooked, at.Child("hookedTypes"))
	}
	if text, ok := p.text(fields["sha256"], at.Child("sha256")); ok {
		if plugin.SHA256, ok = parseSum(text); !ok {
			p.at(at.Child("sha256"), "expected 64 lower-case hexadecimal digits, but found %s", quote(text))
		}
	}
	return plugin, true
}

// object returns the values of an object by their keys. It has none but the known ones.
func (p *problems) object(node *yaml.Node, at *field.Path, known ...string) (values map[string]*yaml.Node, ok bool) {
	if node.Kind != yaml.MappingNode || isTagged(node) {
		p.at(at, "expected an object, but found %s", describe(node))
		return nil, false
	}
	values = make(map[string]*yaml.Node, len(known))
	for i := 0; i+1 < len(node.Content); i += 2 { // keys and values follow each other
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case !isText(key):
			p.at(at, "expected texts as keys, but found %s", describe(key))
		case values[key.Value] != nil:
			p.at(child(at, key.Value), "appears twice; leave one of them")
		case !slices.Contains(known, key.Value):
			p.at(child(at, key.Value), "unknown field; expected one of %s", strings.Join(known, ", "))
		default:
			values[key.Value] = value
		}
	}
	return values, true
}

func (p *problems) items(node *yaml.Node, at *field.Path) []*yaml.Node {
	switch {
	case node == nil:
		p.at(at, "is missing; expected a list")
		return nil
	case node.Kind != yaml.SequenceNode || isTagged(node):
		p.at(at, "expected a list, but found %s", describe(node))
		return nil
	default:
		return node.Content
	}
}

func (p *problems) texts(node *yaml.Node, at *field.Path) []string {
	var texts []string
	for i, item := range p.items(node, at) {
		text, _ := p.text(item, at.Index(i))
		texts = append(texts, text)
	}
	return texts
}

func (p *problems) text(node *yaml.Node, at *field.Path) (text string, ok bool) {
	switch {
	case node == nil:
		p.at(at, "is missing; expected a text")
		return "", false
	case !isText(node):
		p.at(at, "expected a text, but found %s", describe(node))
		return "", false
	default:
		return node.Value, true
	}
}

func isTagged(node *yaml.Node) bool { return node.Style&yaml.TaggedStyle != 0 }

func isText(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && !isTagged(node) && node.ShortTag() == "!!str"
}

// describe says what a node is, as part of a sentence.
func describe(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.AliasNode:
		return "a YAML alias; write the value out"
	case isTagged(node):
		return "a YAML tag; leave it out"
	case node.Kind == yaml.MappingNode:
		return "an object"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.ShortTag() == "!!null":
		return "nothing"
	case node.ShortTag() == "!!str":
		return "the text " + quote(node.Value)
	default:
		return shortened(node.Value) + ", which is a text only with quotes"
	}
}
