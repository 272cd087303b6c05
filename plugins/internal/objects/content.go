package objects

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Same reports whether two states of an object have the same content.
func Same(a, b *unstructured.Unstructured) bool {
	return reflect.DeepEqual(Content(a), Content(b))
}

// ofServer are the fields of the metadata set by the API server itself. They change with every write, or differ
// between an object and a new one.
var ofServer = []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"}

// Content returns an object without the metadata set by the API server. It shares the rest with the object.
func Content(o *unstructured.Unstructured) map[string]any {
	out := make(map[string]any, len(o.Object))
	for key, value := range o.Object {
		out[key] = value
	}
	metadata, ok := out["metadata"].(map[string]any)
	if !ok {
		return out
	}
	rest := make(map[string]any, len(metadata))
	for key, value := range metadata {
		rest[key] = value
	}
	for _, key := range ofServer {
		delete(rest, key)
	}
	out["metadata"] = rest
	return out
}

// WithoutStatus returns a copy of an object without its status.
func WithoutStatus(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "status")
	return out
}

// Document returns an object as JSON for the user, without the metadata set by the API server; nil for nil.
func Document(o *unstructured.Unstructured) json.RawMessage {
	if o == nil {
		return nil
	}
	document, err := json.Marshal(Content(o))
	if err != nil {
		return nil // decoded JSON can always be marshalled
	}
	return document
}

// Project returns the parts of value with a counterpart in template. A list keeps every element in its place, so that
// one more or one less makes a difference, but an element beyond the template's is not looked into.
func Project(template, value any) any {
	switch t := template.(type) {
	case map[string]any:
		v, ok := value.(map[string]any)
		if !ok {
			return value
		}
		out := map[string]any{}
		for key, inner := range t {
			field, ok := v[key]
			if !ok {
				continue
			}
			out[key] = Project(inner, field)
		}
		return out
	case []any:
		v, ok := value.([]any)
		if !ok {
			return value
		}
		out := make([]any, len(v))
		for i := range min(len(v), len(t)) {
			out[i] = Project(t[i], v[i])
		}
		return out
	default:
		return value
	}
}

// Digest returns a short text, the same for equal JSON and another for different JSON. It stands in the status of a
// deploy item with the manifest itself in the spec, so it reveals nothing.
func Digest(content any) string {
	document, err := json.Marshal(content)
	if err != nil {
		// Decoded JSON can always be marshalled. If it could not, an empty digest would only cause an unneeded write.
		return ""
	}
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:16])
}
