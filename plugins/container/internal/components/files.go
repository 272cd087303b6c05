package components

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/internal/boundedyaml"
)

// maxDepth bounds the depth of nested directories, together with the depth of the YAML in their files: in YAML the
// length of each line grows with its depth.
const maxDepth = 50

// ReadFiles reads a file system in a document, and returns its files by their paths. An object is a directory, a text
// a file, and any other value the content of a file in YAML. The file system may also be a text with such an object
// in YAML.
func ReadFiles(raw json.RawMessage) (map[string][]byte, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		converted, err := boundedyaml.ToJSON([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("expected a file system as an object, or as a text with one in YAML; "+
				"the text cannot be read: %w", err)
		}
		raw = converted
	}
	var root map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &root); err != nil || root == nil {
		return nil, errors.New("expected an object with files and directories by their names")
	}
	files := map[string][]byte{}
	return files, addDirectory(files, "", root, 0)
}

func addDirectory(files map[string][]byte, at string, entries map[string]any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("directories are nested more than %d deep", maxDepth)
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry := entries[name]
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return fmt.Errorf("%q in %q is no name of a file", name, path.Join("/", at))
		}
		file := path.Join(at, name)
		switch entry := entry.(type) {
		case map[string]any:
			if err := addDirectory(files, file, entry, depth+1); err != nil {
				return err
			}
		case string:
			files[file] = []byte(entry)
		default:
			if isDeeper(entry, maxDepth-depth) {
				return fmt.Errorf("the content of %q is nested more than %d deep", path.Join("/", file), maxDepth)
			}
			content, err := yaml.Marshal(entry)
			if err != nil {
				return fmt.Errorf("write %q as YAML: %w", path.Join("/", file), err)
			}
			files[file] = content
		}
	}
	return nil
}

// isDeeper reports whether lists and objects are nested more than so many levels deep.
func isDeeper(value any, levels int) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			if levels == 0 || isDeeper(v, levels-1) {
				return true
			}
		}
	case []any:
		for _, v := range value {
			if levels == 0 || isDeeper(v, levels-1) {
				return true
			}
		}
	}
	return false
}
