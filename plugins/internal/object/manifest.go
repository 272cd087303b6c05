package object

import (
	"encoding/base64"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// Manifest is an object as written by a user, with the path of its field.
type Manifest struct {
	Path   *field.Path
	Object *unstructured.Unstructured
}

// Parse reads a manifest. A list is replaced by its items, down to any depth. All problems are reported at once with
// their field paths, beside the manifests without problems. Integers keep their precision.
func Parse(raw []byte, path *field.Path) ([]Manifest, field.ErrorList) {
	var content any
	if len(raw) > 0 {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &content); err != nil {
			return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, "expected an object, but found no JSON")}
		}
	}
	return expand(content, path)
}

func expand(content any, path *field.Path) ([]Manifest, field.ErrorList) {
	if content == nil {
		return nil, field.ErrorList{field.Required(path, "the manifest is empty")}
	}
	fields, ok := content.(map[string]any)
	if !ok {
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, "expected an object")}
	}
	if len(fields) == 0 {
		return nil, field.ErrorList{field.Required(path, "the manifest is empty")}
	}
	if items, isList := listItems(fields); isList {
		var manifests []Manifest
		var problems field.ErrorList
		for i, item := range items {
			m, p := expand(item, path.Child("items").Index(i))
			manifests, problems = append(manifests, m...), append(problems, p...)
		}
		return manifests, problems
	}
	dropNulls(fields)
	if problems := checkIdentity(fields, path); len(problems) > 0 {
		return nil, problems
	}
	o := &unstructured.Unstructured{Object: fields}
	normalize(o)
	return []Manifest{{Path: path, Object: o}}, nil
}

// listItems returns the items of a list: a List of v1, or a list named after all its items, with at least one item
// and their apiVersion, such as a RoleList of Roles. A custom resource may well have a kind ending in "List" and a
// field "items"; it stays an object.
func listItems(fields map[string]any) (items []any, isList bool) {
	items, ok := fields["items"].([]any)
	if !ok {
		return nil, false
	}
	apiVersion, _ := fields["apiVersion"].(string)
	if apiVersion == "v1" && fields["kind"] == "List" {
		return items, true
	}
	for _, item := range items {
		o, _ := item.(map[string]any)
		kind, _ := o["kind"].(string)
		if kind == "" || fields["kind"] != kind+"List" || o["apiVersion"] != apiVersion {
			return nil, false
		}
	}
	return items, len(items) > 0
}

// checkIdentity reports missing parts of the object's identity. It checks types where the accessors of unstructured
// objects would otherwise take a wrong one for a missing field, or panic at a copy of the object.
func checkIdentity(fields map[string]any, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	require := func(fields map[string]any, path *field.Path, name string) {
		switch value := fields[name].(type) {
		case nil:
			problems = append(problems, field.Required(path.Child(name), ""))
		case string:
			if value == "" {
				problems = append(problems, field.Required(path.Child(name), ""))
			}
		default:
			problems = append(problems, field.Invalid(path.Child(name), field.OmitValueType{}, "expected a string"))
		}
	}
	require(fields, path, "apiVersion")
	require(fields, path, "kind")
	if apiVersion, _ := fields["apiVersion"].(string); apiVersion != "" {
		if _, err := schema.ParseGroupVersion(apiVersion); err != nil {
			problems = append(problems,
				field.Invalid(path.Child("apiVersion"), apiVersion, `expected a form like "v1" or "apps/v1"`))
		}
	}
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		return append(problems, field.Required(path.Child("metadata", "name"), ""))
	}
	require(metadata, path.Child("metadata"), "name")
	if _, ok := metadata["namespace"].(string); !ok && metadata["namespace"] != nil {
		problems = append(problems,
			field.Invalid(path.Child("metadata", "namespace"), field.OmitValueType{}, "expected a string"))
	}
	// No API server ever sees another name or namespace: client-go refuses to send it.
	for _, name := range []string{"name", "namespace"} {
		segment, _ := metadata[name].(string)
		for _, wrong := range content.IsPathSegmentName(segment) {
			problems = append(problems, field.Invalid(path.Child("metadata", name), segment, wrong))
		}
	}
	problems = append(problems, checkStringMap(metadata["labels"], path.Child("metadata", "labels"))...)
	problems = append(problems, checkStringMap(metadata["annotations"], path.Child("metadata", "annotations"))...)
	if fields["apiVersion"] == "v1" && fields["kind"] == "Secret" {
		problems = append(problems, checkSecret(fields, path)...)
	}
	return problems
}

// checkSecret reports values the API server would refuse. Its message quotes them and cannot be passed on; here only
// the key is named.
func checkSecret(secret map[string]any, path *field.Path) field.ErrorList {
	problems := checkStringMap(withoutNulls(secret["stringData"]), path.Child("stringData"))
	problems = append(problems, checkStringMap(withoutNulls(secret["data"]), path.Child("data"))...)
	data, _ := secret["data"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		text, ok := data[key].(string)
		if _, err := base64.StdEncoding.DecodeString(text); ok && err != nil {
			at := path.Child("data").Key(key)
			problems = append(problems,
				field.Invalid(at, field.OmitValueType{}, "expected base64; plain text goes into stringData"))
		}
	}
	return problems
}

// dropNulls leaves out labels and annotations without a value, such as those of templates with an unset value: the API
// server accepts them, but the accessors of unstructured objects find no labels beside them.
func dropNulls(fields map[string]any) {
	metadata, _ := fields["metadata"].(map[string]any)
	for _, name := range []string{"labels", "annotations"} {
		if entries, ok := metadata[name].(map[string]any); ok {
			metadata[name] = withoutNulls(entries)
		}
	}
}

// withoutNulls leaves out the entries the API server takes for empty ones.
func withoutNulls(value any) any {
	entries, ok := value.(map[string]any)
	if !ok {
		return value
	}
	entries = maps.Clone(entries)
	maps.DeleteFunc(entries, func(_ string, entry any) bool { return entry == nil })
	return entries
}

func checkStringMap(value any, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	entries, ok := value.(map[string]any)
	if !ok {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "expected a map of strings")}
	}
	var problems field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if _, ok := entries[key].(string); !ok {
			problems = append(problems,
				field.Invalid(path.Key(key), field.OmitValueType{}, "expected a string; numbers and booleans need quotes"))
		}
	}
	return problems
}

// serverFields are set by the API server alone. They get into manifests read from a cluster.
var serverFields = []string{
	"resourceVersion", "uid", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
	"managedFields", "selfLink",
}

// normalize brings an object to its form from the API server, as far as it matters for a comparison.
func normalize(o *unstructured.Unstructured) {
	for _, name := range serverFields {
		unstructured.RemoveNestedField(o.Object, "metadata", name)
	}
	switch gvk := o.GroupVersionKind(); {
	case gvk.Group == "" && gvk.Kind == "Secret":
		encodeStringData(o.Object)
	case gvk.Group == "rbac.authorization.k8s.io" && gvk.Kind == "ClusterRole" && o.Object["aggregationRule"] != nil:
		// A controller fills in the rules of an aggregated role and overwrites those of the manifest.
		delete(o.Object, "rules")
	}
}

// encodeStringData moves stringData of a Secret to its place in the API server. A malformed one is left to the API
// server.
func encodeStringData(secret map[string]any) {
	texts, ok := secret["stringData"].(map[string]any)
	if !ok {
		return
	}
	data, ok := secret["data"].(map[string]any)
	if !ok {
		if secret["data"] != nil {
			return
		}
		data = map[string]any{}
	}
	for _, text := range texts {
		if _, ok := text.(string); !ok {
			return
		}
	}
	for key, text := range texts {
		data[key] = base64.StdEncoding.EncodeToString([]byte(text.(string))) //nolint:forcetypeassert // checked above
	}
	secret["data"] = data
	delete(secret, "stringData")
}
