package readiness

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/jsonpath"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/reader"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// maxValues bounds the values of a requirement.
const maxValues = 1000

// ParseChecks returns the checks of a configuration, or all its problems. path is the place of the configuration.
// Disabled checks must be valid, too.
//
// A requirement is met if the JSON path leads to one or more values and each of them meets the operator:
//
//   - exists: any value.
//   - =, ==: the value equals the given one. != is the contrary.
//   - in: the value equals one of the given ones. notin is the contrary.
//   - !: there is none.
//
// So missing values meet only !, and null counts as missing. Values are equal if they are the same JSON; numbers are
// compared by their values.
func ParseChecks(c managedresource.ReadinessCheckConfiguration, path *field.Path) (Checks, field.ErrorList) {
	checks := Checks{disableDefault: c.DisableDefault}
	var problems field.ErrorList
	for i, custom := range c.Custom {
		parsed, p := parseCheck(custom, path.Child("custom").Index(i))
		problems = append(problems, p...)
		if !custom.Disabled {
			checks.custom = append(checks.custom, parsed)
		}
	}
	if len(problems) > 0 {
		return Checks{}, problems
	}
	return checks, nil
}

func parseCheck(c managedresource.CustomReadinessCheck, path *field.Path) (check, field.ErrorList) {
	parsed := check{name: c.Name, references: c.Resource}
	var problems field.ErrorList
	if c.Name == "" {
		problems = append(problems, field.Required(path.Child("name"), ""))
	}
	if c.TargetName != nil {
		parsed.target = *c.TargetName
	}
	if len(c.Resource) == 0 && c.LabelSelector == nil {
		problems = append(problems, field.Required(path, "set resourceSelector or labelSelector to the checked objects"))
	}
	for i, r := range c.Resource {
		problems = append(problems, reader.RequireReference(r, path.Child("resourceSelector").Index(i))...)
	}
	var p field.ErrorList
	if c.LabelSelector != nil {
		parsed.selector, p = parseSelector(*c.LabelSelector, path.Child("labelSelector"))
		problems = append(problems, p...)
	}
	if len(c.Requirements) == 0 {
		problems = append(problems, field.Required(path.Child("requirements"), "a check without requirements checks nothing"))
	}
	for i, r := range c.Requirements {
		req, p := parseRequirement(r, path.Child("requirements").Index(i))
		parsed.requirements, problems = append(parsed.requirements, req), append(problems, p...)
	}
	return parsed, problems
}

func parseSelector(s managedresource.LabelSelector, path *field.Path) (*selector, field.ErrorList) {
	problems := reader.RequireKind(s.APIVersion, s.Kind, path)
	if len(s.MatchLabels) == 0 {
		problems = append(problems,
			field.Required(path.Child("matchLabels"), "without labels every object of the kind would be checked"))
	}
	matching, err := labels.ValidatedSelectorFromSet(s.MatchLabels)
	if err != nil {
		problems = append(problems, field.Invalid(path.Child("matchLabels"), field.OmitValueType{}, err.Error()))
	}
	return &selector{gvk: object.GVK(s.APIVersion, s.Kind), labels: matching}, problems
}

// numberOfValues are the least and the greatest numbers of values of the operators.
var numberOfValues = map[selection.Operator][2]int{
	selection.Exists:       {0, 0},
	selection.DoesNotExist: {0, 0},
	selection.Equals:       {1, 1},
	selection.DoubleEquals: {1, 1},
	selection.NotEquals:    {1, 1},
	selection.In:           {1, maxValues},
	selection.NotIn:        {1, maxValues},
}

func operators() []selection.Operator {
	return []selection.Operator{
		selection.Exists, selection.DoesNotExist, selection.Equals, selection.DoubleEquals, selection.NotEquals,
		selection.In, selection.NotIn,
	}
}

func parseRequirement(r managedresource.Requirement, path *field.Path) (requirement, field.ErrorList) {
	parsed := requirement{operator: r.Operator}
	var problems field.ErrorList
	var err error
	if parsed.path, err = jsonpath.Parse(r.JSONPath); err != nil {
		problems = append(problems, field.Invalid(path.Child("jsonPath"), r.JSONPath, err.Error()))
	}
	bounds, known := numberOfValues[r.Operator]
	switch n := len(r.Values); {
	case r.Operator == "":
		problems = append(problems, field.Required(path.Child("operator"), ""))
	case !known:
		problems = append(problems, field.NotSupported(path.Child("operator"), r.Operator, operators()))
	case n < bounds[0] || n > bounds[1]:
		problems = append(problems, field.Invalid(path.Child("values"), field.OmitValueType{},
			fmt.Sprintf("the operator %q takes %s, but found %d", r.Operator, describeBounds(bounds), n)))
		return parsed, problems
	}
	for i, v := range r.Values {
		value, p := parseValue(v, path.Child("values").Index(i))
		parsed.values, problems = append(parsed.values, value), append(problems, p...)
	}
	return parsed, problems
}

func describeBounds(bounds [2]int) string {
	switch {
	case bounds[1] == 0:
		return "no values"
	case bounds[0] == bounds[1]:
		return "one value"
	default:
		return fmt.Sprintf("%d to %d values", bounds[0], bounds[1])
	}
}

// parseValue reads {"value": X}. Its errors show no other content: it may be a secret.
func parseValue(extension runtime.RawExtension, path *field.Path) (any, field.ErrorList) {
	const expected = `expected a map with "value" and nothing else`
	var document map[string]any
	if err := utiljson.Unmarshal(extension.Raw, &document); err != nil || document == nil {
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, expected)}
	}
	var problems field.ErrorList
	for name := range document {
		if name != "value" {
			problems = append(problems, field.Invalid(path.Child(name), field.OmitValueType{}, expected))
		}
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
	value, found := document["value"]
	switch {
	case !found:
		problems = append(problems, field.Required(path.Child("value"), ""))
	case value == nil:
		problems = append(problems, field.Invalid(path.Child("value"), field.OmitValueType{},
			`null counts as missing and equals nothing; use the operator "!"`))
	}
	return value, problems
}
