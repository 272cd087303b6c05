package config

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Load reads a HostConfiguration from a file. Absent fields have their defaults; identity is that of the field of the
// same name. If the file can be read but not used, the error has a line for every problem.
func Load(file, identity string) (*HostConfiguration, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the host configuration: %w", err)
	}
	return Parse(file, content, identity)
}

// Parse reads a HostConfiguration from a text, YAML or JSON. source is the name of the text in errors; see Load for the
// rest.
func Parse(source string, content []byte, identity string) (*HostConfiguration, error) {
	document, err := toJSON(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	config := Default(identity)
	config.APIVersion, config.Kind = "", "" // these have no default
	found := check(document, config)
	lines := make([]error, len(found))
	for i, problem := range found {
		lines[i] = fmt.Errorf("%s: %s: %s", source, problem.Field, problem.Detail)
	}
	if err := errors.Join(lines...); err != nil {
		return nil, err
	}
	return config, nil
}

// check fills a configuration from a document and returns every problem with it.
func check(document []byte, config *HostConfiguration) field.ErrorList {
	var is metav1.TypeMeta
	// Wrong types of these are found below. A document without a version is read as ours.
	_ = json.Unmarshal(document, &is)
	if cmp.Or(is.APIVersion, APIVersion) != APIVersion || cmp.Or(is.Kind, Kind) != Kind {
		c := &checker{}
		// Other problems would be about the fields of another version.
		c.version(is)
		return c.errs
	}
	found, readable := read(document, config)
	if !readable {
		return found
	}
	return append(found, Validate(config)...)
}

// toJSON returns the one object of a text as JSON.
func toJSON(content []byte) ([]byte, error) {
	if json.Valid(content) {
		return object(content)
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	only := []byte("null")
	for {
		next, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return object(only)
		}
		document, err := yaml.YAMLToJSONStrict(next)
		switch {
		case err != nil: // in one line
			message := strings.Join(strings.Fields(err.Error()), " ")
			return nil, fmt.Errorf("is no valid YAML: %s", strings.TrimPrefix(message, "yaml: "))
		case string(document) == "null": // such as a comment
		case string(only) != "null":
			return nil, errors.New("holds several YAML documents; expected one")
		default:
			only = document
		}
	}
}

// object returns a JSON document with an object, also for null. The error does not quote the document: the file may
// hold anything, such as a token.
func object(document []byte) ([]byte, error) {
	document = bytes.TrimSpace(document)
	if string(document) == "null" {
		return []byte("{}"), nil
	}
	if document[0] != '{' {
		return nil, errors.New("expected an object, but found something else")
	}
	return document, nil
}

// outline is a HostConfiguration with undecoded entries, so that problems with them name the entry.
type outline struct {
	*HostConfiguration

	TargetSelectors []json.RawMessage          `json:"targetSelectors"`
	Plugins         map[string]json.RawMessage `json:"plugins"`
}

// read fills a configuration from a document. Fields that are absent or null stay as they are. It is not readable if
// some value has another type, so that values are missing.
func read(document []byte, config *HostConfiguration) (found field.ErrorList, readable bool) {
	all := outline{HostConfiguration: config}
	found, readable = decode(document, &all, nil)
	entry := func(value json.RawMessage, into any, at *field.Path) {
		problems, ok := decode(value, into, at)
		found, readable = append(found, problems...), readable && ok
	}
	for i, value := range all.TargetSelectors {
		var selector v1alpha1.TargetSelector
		at := field.NewPath("targetSelectors").Index(i)
		entry(value, &selector, at)
		// Null must not pass for a selector of all.
		if string(value) == "null" {
			found = append(found, invalid(at, "expected an object, but found nothing"))
		}
		config.TargetSelectors = append(config.TargetSelectors, selector)
	}
	if all.Plugins != nil {
		config.Plugins = make(map[string]Plugin, len(all.Plugins))
	}
	for _, name := range slices.Sorted(maps.Keys(all.Plugins)) {
		var plugin Plugin
		entry(all.Plugins[name], &plugin, field.NewPath("plugins", name))
		if string(plugin.Config) == "null" {
			plugin.Config = nil
		}
		config.Plugins[name] = plugin
	}
	return found, readable
}

// decode fills into from a part of the document. Only the first value of another type is found, and then nothing else.
func decode(value []byte, into any, at *field.Path) (found field.ErrorList, readable bool) {
	strict, err := strictjson.UnmarshalStrict(value, into)
	if err != nil {
		return field.ErrorList{typeProblem(err, at)}, false
	}
	for _, err := range strict {
		if wrong := strictjson.FieldError(nil); errors.As(err, &wrong) {
			detail, _, _ := strings.Cut(err.Error(), ` "`) // and then the path
			detail += sdk.DidYouMean(into, wrong.FieldPath())
			found = append(found, invalid(at.Child(wrong.FieldPath()), "%s", detail))
		}
	}
	return found, true
}

// scalarWords are the words for types with a text form of their own.
var scalarWords = map[reflect.Type]string{
	reflect.TypeFor[Duration](): "a duration such as 30s or 5m",
	reflect.TypeFor[Bytes]():    "an amount of memory such as 512Mi",
}

func typeProblem(err error, at *field.Path) *field.Error {
	name, sentence, ok := text.Mismatch(err, scalarWords)
	if !ok {
		return invalid(at, "%s", err.Error())
	}
	// outline reaches its fields by that prefix.
	if name = strings.TrimPrefix(name, "HostConfiguration."); name != "" {
		at = at.Child(name)
	}
	return invalid(at, "%s", sentence)
}
