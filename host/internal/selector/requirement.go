package selector

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// maxQuoted bounds quotes of a selector.
const maxQuoted = 64

// requirement is a valid requirement. Kubernetes' own for label selectors cannot be used: it refuses values allowed in
// annotations.
type requirement struct {
	key      string
	operator v1alpha1.RequirementOperator
	values   []string
	bound    int64 // for gt and lt
	of       func(metav1.Object) map[string]string
	text     string // for messages
}

// compileRequirements returns requirements for a map of the Target, given by of, and all errors.
func compileRequirements(
	requirements []v1alpha1.Requirement, path *field.Path, of func(metav1.Object) map[string]string,
) ([]requirement, field.ErrorList) {
	var (
		compiled []requirement
		errs     field.ErrorList
	)
	for i, r := range requirements {
		at := path.Index(i)
		errs = append(errs, validateRequirement(r, at)...)
		c := requirement{key: r.Key, operator: r.Operator, values: r.Values, of: of}
		if len(r.Values) == 1 {
			// validateRequirement reports an error.
			c.bound, _ = strconv.ParseInt(r.Values[0], 10, 64)
		}
		words := append([]string{text.Cut(r.Key, maxQuoted), string(r.Operator)}, quoteAll(r.Values)...)
		c.text = fmt.Sprintf("%s (%s)", at, strings.Join(words, " "))
		compiled = append(compiled, c)
	}
	return compiled, errs
}

// matches follows Kubernetes: negating operators also match when the key is missing.
func (r requirement) matches(target metav1.Object) bool {
	value, found := r.of(target)[r.key]
	switch r.operator {
	case v1alpha1.RequirementEquals, v1alpha1.RequirementDoubleEquals, v1alpha1.RequirementIn:
		return found && slices.Contains(r.values, value)
	case v1alpha1.RequirementNotEquals, v1alpha1.RequirementNotIn:
		return !found || !slices.Contains(r.values, value)
	case v1alpha1.RequirementExists:
		return found
	case v1alpha1.RequirementDoesNotExist:
		return !found
	case v1alpha1.RequirementGreaterThan, v1alpha1.RequirementLessThan:
		number, err := strconv.ParseInt(value, 10, 64)
		if !found || err != nil {
			return false
		}
		if r.operator == v1alpha1.RequirementGreaterThan {
			return number > r.bound
		}
		return number < r.bound
	}
	return false
}

// operators are all there are, in the order of messages.
var operators = []string{
	string(v1alpha1.RequirementEquals), string(v1alpha1.RequirementDoubleEquals), string(v1alpha1.RequirementNotEquals),
	string(v1alpha1.RequirementIn), string(v1alpha1.RequirementNotIn),
	string(v1alpha1.RequirementExists), string(v1alpha1.RequirementDoesNotExist),
	string(v1alpha1.RequirementGreaterThan), string(v1alpha1.RequirementLessThan),
}

// validateRequirement returns all errors of a requirement.
func validateRequirement(r v1alpha1.Requirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Key == "" {
		errs = append(errs, field.Required(path.Child("key"),
			"expected the key of an annotation or label, but it is empty"))
	}
	if !slices.Contains(operators, string(r.Operator)) {
		return append(errs, invalid(path.Child("operator"), "expected one of %s, but found %q",
			strings.Join(operators, ", "), text.Cut(string(r.Operator), maxQuoted)))
	}
	values := path.Child("values")
	switch r.Operator {
	case v1alpha1.RequirementIn, v1alpha1.RequirementNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, invalid(values, "operator %q takes one value or more, but found none", r.Operator))
		}
	case v1alpha1.RequirementExists, v1alpha1.RequirementDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, invalid(values, "operator %q takes no values, but found %d", r.Operator, len(r.Values)))
		}
	case v1alpha1.RequirementGreaterThan, v1alpha1.RequirementLessThan:
		if len(r.Values) != 1 {
			return append(errs, invalid(values, "operator %q takes exactly one integer, but found %d values",
				r.Operator, len(r.Values)))
		}
		if _, err := strconv.ParseInt(r.Values[0], 10, 64); err != nil {
			errs = append(errs, invalid(values.Index(0), "operator %q takes an integer, but found %q",
				r.Operator, text.Cut(r.Values[0], maxQuoted)))
		}
	case v1alpha1.RequirementEquals, v1alpha1.RequirementDoubleEquals, v1alpha1.RequirementNotEquals:
		if len(r.Values) != 1 {
			errs = append(errs, invalid(values, "operator %q takes exactly one value, but found %d",
				r.Operator, len(r.Values)))
		}
	}
	return errs
}

func invalid(path *field.Path, format string, args ...any) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(format, args...)) // the text has the value
}

// quoteAll quotes the first values; a message needs no more of them.
func quoteAll(values []string) []string {
	const most = 5
	quoted := make([]string, 0, most+1)
	for i, value := range values {
		if i == most {
			return append(quoted, "…")
		}
		quoted = append(quoted, strconv.Quote(text.Cut(value, maxQuoted)))
	}
	return quoted
}
