package helm

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/internal/boundedyaml"
)

// SourceComment begins Helm's comment with the template of an object.
const SourceComment = "# Source: "

const (
	// maxDocument bounds one document of a manifest. An API server takes no request with more than 3 MiB.
	maxDocument = 4 << 20
	// maxSource bounds the name of a template.
	maxSource = 1 << 10
)

// Errors about a document. They do not quote it, unlike those of the parser.
var (
	errNoEnd    = errors.New("it has no proper end")
	errTooLarge = fmt.Errorf("it has more than %d bytes", maxDocument)
	errNoYAML   = errors.New("it is no YAML")
	errNoObject = errors.New("it is no object of Kubernetes")
)

// ParseManifest returns the objects of a manifest as Helm reads them, those of lists one by one. Their source is that
// of a comment, or else the given one. Errors name it and the document, and hold no values. It parses one document
// after the other, and may take some hundred times the size of each in memory.
func ParseManifest(source, manifest string) ([]Object, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	var objects []Object
	for number := 1; ; number++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		from := cmp.Or(sourceOf(text), source)
		var found []Object
		if err != nil {
			err = errNoEnd
		} else {
			found, err = parseDocument(from, text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", cmp.Or(from, "the manifest"), number, err)
		}
		objects = append(objects, found...)
	}
}

func parseDocument(source string, text []byte) ([]Object, error) {
	if len(text) > maxDocument {
		return nil, errTooLarge
	}
	if err := boundedyaml.Check(text, maxDocument); err != nil {
		return nil, err
	}
	content, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, errNoYAML
	}
	return expand(source, content)
}

// expand returns an object, or the items of a list: as for kubectl they may leave apiVersion and kind to the list.
func expand(source string, content json.RawMessage) ([]Object, error) {
	if bytes.Equal(content, []byte("null")) {
		return nil, nil
	}
	var head struct {
		APIVersion string                       `json:"apiVersion"`
		Kind       string                       `json:"kind"`
		Items      []map[string]json.RawMessage `json:"items"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(content, &head); err != nil {
		wrong := &json.UnmarshalTypeError{}
		if errors.As(err, &wrong) && wrong.Field != "" {
			return nil, fmt.Errorf("%w: its field %s is a %s", errNoObject, wrong.Field, wrong.Value)
		}
		return nil, errNoObject
	}
	switch {
	case head.Kind == "":
		return nil, fmt.Errorf("%w: it has no kind", errNoObject)
	case head.APIVersion == "":
		return nil, fmt.Errorf("%w: the %s %q has no apiVersion", errNoObject, head.Kind, head.Metadata.Name)
	case head.Items == nil && head.Metadata.Name == "":
		return nil, fmt.Errorf("%w: the %s has no name", errNoObject, head.Kind)
	case head.Items == nil:
		return []Object{{Source: source, JSON: content}}, nil
	}
	var objects []Object
	for _, item := range head.Items {
		if item != nil && item["apiVersion"] == nil && item["kind"] == nil && head.Kind != "List" {
			item["apiVersion"] = fmt.Appendf(nil, "%q", head.APIVersion)
			item["kind"] = fmt.Appendf(nil, "%q", strings.TrimSuffix(head.Kind, "List"))
		}
		text, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("write an item of a list: %w", err)
		}
		found, err := expand(source, text)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// sourceOf returns the template named by the comments at the beginning of a document; empty for none.
func sourceOf(text []byte) string {
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		if source, ok := bytes.CutPrefix(line, []byte(SourceComment)); ok && len(source) <= maxSource {
			return string(source)
		}
		trimmed := bytes.TrimSpace(line)
		// The first document begins with the separator before it.
		if len(trimmed) > 0 && trimmed[0] != '#' && !bytes.HasPrefix(line, []byte("---")) {
			break
		}
	}
	return ""
}
