package release

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/boundedyaml"
)

const (
	// maxDocument bounds one object of a manifest. An API server takes no request with more than 3 MiB.
	maxDocument = 4 << 20
	// maxSource bounds what is taken for the name of a template.
	maxSource = 1 << 10
)

// sourceMark begins the comment in which Helm names the template of an object.
const sourceMark = "# Source: "

// split returns the objects of a manifest as Helm reads them: documents of YAML, or values of JSON one after the other, which a post-renderer
// may have written.
func split(manifest string) ([]helm.Object, error) {
	objects, manifest, err := splitJSON(manifest)
	if err != nil {
		return nil, err
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	for number := len(objects) + 1; ; number++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: document %d of its manifest has no proper end", ErrUnreadable, number)
		}
		o := helm.Object{Source: sourceOf(text)}
		if o.JSON, err = toJSON(text); err != nil {
			return nil, fmt.Errorf("%w: document %d of its manifest, from template %q: %w", ErrUnreadable, number, o.Source, err)
		}
		if o.JSON != nil {
			objects = append(objects, o)
		}
	}
}

// splitJSON returns the objects at the beginning of a manifest that are JSON, and the rest. What begins like JSON may be YAML all the same,
// unless there were several values of JSON already.
func splitJSON(manifest string) (objects []helm.Object, rest string, err error) {
	if !strings.HasPrefix(strings.TrimSpace(manifest), "{") {
		return nil, manifest, nil
	}
	decoder := json.NewDecoder(strings.NewReader(manifest))
	for number := 1; ; number++ {
		end := decoder.InputOffset()
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		switch {
		case errors.Is(err, io.EOF):
			return objects, "", nil
		case err != nil && number <= 2:
			return objects, manifest[end:], nil
		case err != nil:
			return nil, "", fmt.Errorf("%w: value %d of its manifest is no JSON", ErrUnreadable, number)
		}
		if raw, err = checkObject(raw); err != nil {
			return nil, "", fmt.Errorf("%w: value %d of its manifest: %w", ErrUnreadable, number, err)
		}
		if raw != nil {
			objects = append(objects, helm.Object{JSON: raw})
		}
	}
}

// checkObject returns a value of JSON if it is an object, and nil if it is null.
func checkObject(raw json.RawMessage) (json.RawMessage, error) {
	switch {
	case len(raw) > maxDocument:
		return nil, errTooLarge
	case bytes.Equal(raw, []byte("null")):
		return nil, nil
	case len(raw) == 0 || raw[0] != '{':
		return nil, errNoObject
	default:
		return raw, nil
	}
}

// sourceOf returns the template that the comments at the beginning of a document name; empty if they name none.
func sourceOf(text []byte) string {
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		if source, ok := bytes.CutPrefix(line, []byte(sourceMark)); ok && len(source) <= maxSource {
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

// Errors about a document. They quote nothing of it, as those of the parser do.
var (
	errTooLarge = fmt.Errorf("it has more than %d bytes", maxDocument)
	errNoYAML   = errors.New("it is no YAML")
	errNoObject = errors.New("it is no object")
)

// toJSON returns a document as JSON; nil if there is nothing in it.
func toJSON(text []byte) (json.RawMessage, error) {
	if len(text) > maxDocument {
		return nil, errTooLarge
	}
	if err := boundedyaml.CheckAliases(text, maxDocument); err != nil {
		return nil, err
	}
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, errNoYAML
	}
	return checkObject(raw)
}
