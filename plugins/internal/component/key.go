package component

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Key names a resource of a component version, as Landscaper's templates do.
type Key struct {
	// Component and Version are the name and version of the component.
	Component, Version string
	// Resource is the identity of the resource.
	Resource Identity
}

// String returns the key for users.
func (k Key) String() string {
	return fmt.Sprintf("resource %s of component %s %s", k.Resource, k.Component, k.Version)
}

// Identity is the name of a resource with its distinguishing attributes.
type Identity map[string]string

// attributeName and attributeVersion are the attributes of an Identity with a field of their own in the resource.
const (
	attributeName    = "name"
	attributeVersion = "version"
)

// maxAttributes bounds the attributes in a text.
const maxAttributes = 10

// String returns the attributes for users, the name first.
func (i Identity) String() string {
	text, n := shown(i[attributeName]), 0
	for _, attribute := range slices.Sorted(maps.Keys(i)) {
		switch n++; {
		case attribute == attributeName:
		case n > maxAttributes:
			return text + " …"
		default:
			text += fmt.Sprintf(" %s=%s", strings.Trim(shown(attribute), `"`), shown(i[attribute]))
		}
	}
	return text
}

// key is equal for equal identities only. Maps are printed in the order of their keys.
func (i Identity) key() string { return fmt.Sprintf("%q", map[string]string(i)) }

// ParseKey reads a key: YAML or JSON in base64. It refuses any value other than a text, since YAML has changed it
// already.
func ParseKey(text string) (Key, error) {
	const what = "expected the key of a resource, as getResourceKey makes it"
	document, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return Key{}, invalidf("%s, but it cannot be read as base64: %w", what, err)
	}
	var found struct {
		Component map[string]any `json:"component"`
		Resource  map[string]any `json:"resource"`
	}
	if _, err := decode(document, &found); err != nil {
		return Key{}, invalidf("%s, but the document in the base64 cannot be read: %w", what, err)
	}
	key := Key{Resource: Identity{}}
	if key.Component, err = textOf(found.Component, "component", attributeName); err != nil {
		return Key{}, err
	}
	if key.Version, err = textOf(found.Component, "component", attributeVersion); err != nil {
		return Key{}, err
	}
	if key.Resource[attributeName], err = textOf(found.Resource, "resource", attributeName); err != nil {
		return Key{}, err
	}
	for _, attribute := range slices.Sorted(maps.Keys(found.Resource)) {
		if key.Resource[attribute], err = textOf(found.Resource, "resource", attribute); err != nil {
			return Key{}, err
		}
	}
	if name := key.Resource[attributeName]; !elementName.MatchString(name) {
		return Key{}, invalidf("resource.name in the key of the resource is %s, but expected the name of a resource, such "+
			"as chart: at least two lower-case letters, digits, and between them - _ +", shown(name))
	}
	return key, CheckName("component in the key of the resource", key.Component, key.Version)
}

// textOf returns a value of a key; only a text is valid.
func textOf(from map[string]any, parent, name string) (string, error) {
	field := fmt.Sprintf("%s.%s in the key of the resource", parent, strings.Trim(shown(name), `"`))
	switch value := from[name].(type) {
	case string:
		return value, nil
	case nil:
		return "", invalidf("%s is missing", field)
	case map[string]any, []any:
		return "", invalidf("%s is an object or a list, but expected a text", field)
	default:
		return "", invalidf("%s is a number or a boolean, but expected a text; put it in quotes", field)
	}
}
