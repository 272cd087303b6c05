package export

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// Path is a JSON path as kubectl reads it.
type Path struct {
	text   string
	parsed string
}

// ParsePath reads a path with or without braces: "{.data.a}", ".data.a" and "data.a" are the same.
func ParsePath(text string) (Path, error) {
	if strings.TrimSpace(text) == "" {
		return Path{}, errors.New("the path is empty")
	}
	p := Path{text: text, parsed: brace(strings.TrimSpace(text))}
	if err := jsonpath.New("path").Parse(p.parsed); err != nil {
		return Path{}, fmt.Errorf("parse JSON path: %w", err)
	}
	return p, nil
}

// brace puts a path without braces into them: without, the parser takes it for literal text.
func brace(text string) string {
	switch {
	case strings.Contains(text, "{"):
		return text
	case strings.HasPrefix(text, ".") || strings.HasPrefix(text, "$") || strings.HasPrefix(text, "@") || strings.HasPrefix(text, "["):
		return "{" + text + "}"
	default:
		return "{." + text + "}"
	}
}

// String returns the path as it was written.
func (p Path) String() string { return p.text }

// find returns the value at the path. A path that leads to several values yields their list, one that is mixed with text a
// string. found is false as long as any part of the path leads to nothing or to null, or does not suit the object, as an index
// suits no map: all that may change with the object. Why is not told, because the reasons quote the object.
func (p Path) find(in map[string]any) (value any, found bool) {
	// A parsed path is not safe for concurrent use, so none is kept.
	path := jsonpath.New("path").AllowMissingKeys(true)
	if path.Parse(p.parsed) != nil {
		return nil, false
	}
	nodes, err := path.FindResults(in)
	if err != nil || len(nodes) == 0 {
		return nil, false
	}
	for _, node := range nodes {
		if len(node) == 0 || (len(node) == 1 && isNil(node[0])) {
			return nil, false
		}
	}
	if len(nodes) == 1 {
		return valueOf(nodes[0]), true
	}
	var text strings.Builder
	for _, node := range nodes {
		if path.PrintResults(&text, node) != nil {
			return nil, false
		}
	}
	return text.String(), true
}

func isNil(v reflect.Value) bool {
	return !v.IsValid() || (v.Kind() == reflect.Interface && v.IsNil())
}

func valueOf(results []reflect.Value) any {
	if len(results) == 1 {
		return results[0].Interface()
	}
	values := make([]any, 0, len(results))
	for _, r := range results {
		values = append(values, r.Interface())
	}
	return values
}
