package readiness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/pergola-deploy/pergola/plugins/internal/jsonpath"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/reader"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// maxValue bounds the bytes of a value in a message.
const maxValue = 100

// check is a custom check.
type check struct {
	name         string
	target       string
	references   []managedresource.TypedObjectReference
	selector     *selector
	requirements []requirement
}

// selector selects the objects of a kind with the labels.
type selector struct {
	gvk    schema.GroupVersionKind
	labels labels.Selector
}

// requirement compares the values at a path.
type requirement struct {
	path     jsonpath.Path
	operator selection.Operator
	values   []any
}

// run adds the failures of the check's objects to the verdict. The errors of all objects are returned at once. done
// is as in Checks.Run.
func (c check) run(ctx context.Context, r *reader.Reader, done []*unstructured.Unstructured, v *Verdict) error {
	var errs []error
	for _, ref := range c.references {
		o, err := r.Get(ctx, c.target, ref)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		isDone := func(d *unstructured.Unstructured) bool { return c.target == "" && object.KeyOf(d).String() == o.Name }
		if o.Live == nil && slices.ContainsFunc(done, isDone) {
			continue
		}
		c.judge(o, v)
	}
	if c.selector != nil {
		errs = append(errs, c.runSelector(ctx, r, done, v))
	}
	return target.Collect(errs)
}

func (c check) runSelector(ctx context.Context, r *reader.Reader, done []*unstructured.Unstructured, v *Verdict) error {
	isDone := func(d *unstructured.Unstructured) bool {
		return c.target == "" && d.GroupVersionKind() == c.selector.gvk &&
			c.selector.labels.Matches(labels.Set(d.GetLabels()))
	}
	selected := 0
	missing, err := r.List(ctx, c.target, c.selector.gvk, c.selector.labels, func(o reader.Object) {
		selected++
		c.judge(o, v)
	})
	switch {
	case err != nil:
		return err
	case missing != "":
		c.waitFor(v, missing)
	case selected == 0 && !slices.ContainsFunc(done, isDone):
		c.waitFor(v, fmt.Sprintf("no object of kind %s has the labels %s yet", c.selector.gvk.Kind, c.selector.labels))
	}
	return nil
}

// judge adds the failures of an object to the verdict.
func (c check) judge(o reader.Object, v *Verdict) {
	lacks := []string{o.Missing}
	if o.Live != nil {
		lacks = nil
		for _, r := range c.requirements {
			if lack := r.lack(o.Live); lack != "" {
				lacks = append(lacks, o.Name+": "+lack)
			}
		}
	}
	for _, lack := range lacks {
		c.waitFor(v, lack)
	}
	if len(lacks) > 0 && o.Seen != nil {
		v.Seen = append(v.Seen, *o.Seen)
	}
}

func (c check) waitFor(v *Verdict, what string) {
	v.Waiting = append(v.Waiting, fmt.Sprintf("readiness check %q: %s", c.name, what))
}

// lack returns the unmet requirement of an object, in words; empty if it is met. It shows no value of a Secret.
func (r requirement) lack(o *unstructured.Unstructured) string {
	values, err := r.path.Find(o.Object)
	if err != nil {
		return fmt.Sprintf("%s: %v", r.path, err)
	}
	met, wrong := meets(values, r.operator, r.values)
	if met {
		return ""
	}
	hidden := o.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Secret"})
	expected := fmt.Sprintf("expected %s %s", r.path, describe(r.operator, r.values, hidden))
	if wrong == nil {
		return expected + ", but there is no value yet"
	}
	return expected + ", but found " + show(wrong, hidden)
}

// meets reports whether all values at a path meet an operator, and returns the first value in the way. wrong is nil
// if the cause is a missing value.
func meets(found []any, operator selection.Operator, expected []any) (met bool, wrong any) {
	present := 0
	for _, value := range found {
		if value == nil {
			continue
		}
		present++
		if !fits(value, operator, expected) {
			return false, value
		}
	}
	if operator == selection.DoesNotExist {
		return true, nil
	}
	return present > 0 && present == len(found), nil
}

// fits reports whether an existing value meets an operator.
func fits(value any, operator selection.Operator, expected []any) bool {
	switch operator {
	case selection.Exists:
		return true
	case selection.Equals, selection.DoubleEquals, selection.In:
		return contains(expected, value)
	case selection.NotEquals, selection.NotIn:
		return !contains(expected, value)
	default: // selection.DoesNotExist; ParseChecks lets no other pass
		return false
	}
}

func contains(values []any, value any) bool {
	for _, v := range values {
		if jsonpath.Equal(v, value) {
			return true
		}
	}
	return false
}

// describe returns the expectation of an operator, as it was written.
func describe(operator selection.Operator, values []any, hidden bool) string {
	switch operator {
	case selection.Exists:
		return "to exist"
	case selection.DoesNotExist:
		return "not to exist"
	case selection.In, selection.NotIn:
		return fmt.Sprintf("%s %s", operator, show(values, hidden))
	default:
		texts := make([]string, 0, len(values))
		for _, v := range values {
			texts = append(texts, show(v, hidden))
		}
		return fmt.Sprintf("%s %s", operator, strings.Join(texts, ", "))
	}
}

// show writes a value as JSON, cut if it is long.
func show(value any, hidden bool) string {
	if hidden {
		return "a hidden value"
	}
	document, err := json.Marshal(value)
	if err != nil {
		return "a " + jsonpath.TypeOf(value)
	}
	return object.Cut(string(document), maxValue)
}
