package config

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxBytes bounds a document. A HostConfiguration is a few KiB.
const maxBytes = 1 << 20

// Load reads a HostConfiguration from a file. The fields that it leaves out have their defaults; identity is that of the field
// of the same name. If the file can be read but not used, the error is an *Error with everything that is wrong.
func Load(file, identity string) (*HostConfiguration, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the host configuration: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	_ = f.Close() // it was only read
	if err != nil {
		return nil, fmt.Errorf("read the host configuration: %w", err)
	}
	return Parse(file, text, identity)
}

// Parse reads a HostConfiguration from a text, YAML or JSON. source is what errors call the text; see Load for the rest.
func Parse(source string, text []byte, identity string) (*HostConfiguration, error) {
	found := &problems{}
	config := Default(identity)
	config.APIVersion, config.Kind = "", "" // these have no default
	parse(text, config, found)
	if len(found.list) > 0 {
		return nil, &Error{Source: source, Problems: found.list, More: found.more}
	}
	return config, nil
}

func parse(text []byte, config *HostConfiguration, found *problems) {
	if len(text) > maxBytes {
		found.at(nil, "is larger than %d bytes", maxBytes)
		return
	}
	if !utf8.Valid(text) {
		found.at(nil, "is not UTF-8")
		return
	}
	root, err := parseDocument(text)
	if err != nil {
		found.at(nil, "%s", err.Error())
		return
	}
	if root != nil && root.Kind != yaml.MappingNode {
		found.at(nil, "expected an object, but found %s", describeWhole(root))
		return
	}
	if root != nil { // an empty document lacks what every document must say
		decode(root, reflect.ValueOf(config).Elem(), found)
	}
	errs := Validate(config)
	if isOfAnotherVersion(config) {
		// What is right in that version may be wrong in this one.
		*found = problems{}
		errs = slices.DeleteFunc(errs, func(err *field.Error) bool { return err.Field != "apiVersion" && err.Field != "kind" })
	}
	found.addConsequences(errs)
}

// isOfAnotherVersion tells whether a document says that it is something else. One that does not say what it is is read as ours.
func isOfAnotherVersion(config *HostConfiguration) bool {
	return config.APIVersion != "" && config.APIVersion != APIVersion || config.Kind != "" && config.Kind != Kind
}
