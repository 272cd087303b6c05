package export

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/jsonpath"
	"github.com/pergola-deploy/pergola/plugins/internal/reader"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Parse returns the values of a configuration, or all its problems. path is the place of the list of exports;
// defaultTimeout is at its root. No exports are no values.
func Parse(exports *managedresource.Exports, path *field.Path) ([]Value, field.ErrorList) {
	if exports == nil {
		return nil, nil
	}
	var values []Value
	var problems field.ErrorList
	if exports.DefaultTimeout != "" {
		if _, _, err := exports.DefaultTimeout.Parse(); err != nil {
			problems = append(problems, field.Invalid(path.Root().Child("defaultTimeout"), field.OmitValueType{}, err.Error()))
		}
	}
	for i, e := range exports.Exports {
		value, p := parse(e, path.Index(i))
		for j, earlier := range exports.Exports[:i] {
			if e.Key != "" && earlier.Key != "" && Overlap(earlier.Key, e.Key) {
				p = append(p, field.Invalid(path.Index(i).Child("key"), e.Key,
					fmt.Sprintf("cannot be exported beside %q of %s", earlier.Key, path.Index(j))))
			}
		}
		values, problems = append(values, value), append(problems, p...)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return values, nil
}

// Overlap reports whether two keys exclude each other, because they are equal or one is a map on the way to the
// other.
func Overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

func parse(e managedresource.Export, path *field.Path) (Value, field.ErrorList) {
	var problems field.ErrorList
	switch {
	case e.Key == "":
		problems = append(problems, field.Required(path.Child("key"), ""))
	case slices.Contains(strings.Split(e.Key, "."), ""):
		problems = append(problems, field.Invalid(path.Child("key"), e.Key, "expected names separated by single dots"))
	}
	value := Value{Key: e.Key}
	var p field.ErrorList
	value.Path, p = parsePath(e.JSONPath, path.Child("jsonPath"))
	problems = append(problems, p...)
	if e.FromResource == nil {
		problems = append(problems, field.Required(path.Child("fromResource"), "set it to the object with the value"))
	} else {
		value.From = *e.FromResource
		problems = append(problems, reader.RequireReference(value.From, path.Child("fromResource"))...)
	}
	if e.FromObjectReference != nil {
		value.FromObject, p = parseReference(*e.FromObjectReference, path.Child("fromObjectRef"))
		problems = append(problems, p...)
	}
	if e.TargetName != nil {
		value.TargetName = *e.TargetName
	}
	return value, problems
}

func parseReference(r managedresource.FromObjectReference, path *field.Path) (*Reference, field.ErrorList) {
	parsed, problems := parsePath(r.JSONPath, path.Child("jsonPath"))
	problems = append(problems, reader.RequireKind(r.APIVersion, r.Kind, path)...)
	return &Reference{APIVersion: r.APIVersion, Kind: r.Kind, Path: parsed}, problems
}

func parsePath(text string, path *field.Path) (jsonpath.Path, field.ErrorList) {
	parsed, err := jsonpath.Parse(text)
	if err != nil {
		return parsed, field.ErrorList{field.Invalid(path, text, err.Error())}
	}
	return parsed, nil
}
