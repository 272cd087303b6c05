package selector_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/pergola-deploy/pergola/host/internal/selector"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// target returns a Target default/prod with these labels.
func target(of map[string]string) *v1alpha1.Target {
	return &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "prod", Labels: of}}
}

func require(key string, operator v1alpha1.RequirementOperator, values ...string) v1alpha1.Requirement {
	return v1alpha1.Requirement{Key: key, Operator: operator, Values: values}
}

func byLabel(requirements ...v1alpha1.Requirement) v1alpha1.TargetSelector {
	return v1alpha1.TargetSelector{Labels: requirements}
}

func byName(references ...v1alpha1.ObjectReference) v1alpha1.TargetSelector {
	return v1alpha1.TargetSelector{Targets: references}
}

func TestSelect(t *testing.T) {
	yes := func(reason selector.Reason, message string) selector.Selection {
		return selector.Selection{Responsible: true, Reason: reason, Message: message}
	}
	selected := func(index int) selector.Selection {
		return yes(selector.TargetSelected, fmt.Sprintf(`Target "default/prod" is selected by targetSelectors[%d]`, index))
	}
	notSelected := func(mismatches ...string) selector.Selection {
		message := `Target "default/prod" is not selected: ` + strings.Join(mismatches, ", ")
		return selector.Selection{Reason: selector.TargetNotSelected, Message: message}
	}
	everything := yes(selector.NoTargetSelectors, "there are no target selectors")
	notFound := selector.Selection{
		Reason: selector.TargetNotFound, Message: "the Target is missing, so that no target selector can match it",
	}
	prod := byLabel(require("env", "in", "prod"))
	mismatch := func(i int) string { return fmt.Sprintf(`targetSelectors[%d].labels[0] (env in "prod") is not met`, i) }
	annotated := target(nil)
	annotated.Annotations = map[string]string{"note": "two words, ü"}
	nameAndAnnotation := byName(v1alpha1.ObjectReference{Name: "prod"})
	nameAndAnnotation.Annotations = []v1alpha1.Requirement{require("a", "exists")}
	type selectors = []v1alpha1.TargetSelector
	type marks = map[string]string
	for name, tc := range map[string]struct {
		reason    string
		selectors selectors
		noTarget  bool
		target    metav1.Object
		want      selector.Selection
	}{
		// Rule (host-configuration.md#target-selectors): A host without target selectors is responsible for each
		// Target.
		"no selectors":          {"nothing is selected, so that everything is ours", nil, false, target(nil), everything},
		"no selectors, missing": {"a host for all is so for a missing Target", nil, false, nil, everything},
		// Rule (host-configuration.md#target-selectors): An item without a Target is the responsibility of each host
		// that serves its type.
		"no target": {"selectors are not consulted", selectors{prod}, true, nil,
			yes(selector.NoTarget, "the item has no target, which every target selector lets pass")},
		// Rule (host-configuration.md#target-selectors): A host with selectors does not take an item without its
		// Target.
		"missing":        {"it could be that of any host", selectors{{}}, false, nil, notFound},
		"empty selector": {"without conditions all are met", selectors{{}}, false, target(nil), selected(0)},
		"entries are ORed": {"the second matches", selectors{byName(v1alpha1.ObjectReference{Name: "other"}), prod}, false,
			target(marks{"env": "prod"}), selected(1)},
		// Rule (host-configuration.md#target-selectors): The Targets, labels and annotations of one target selector
		// must all match.
		"fields are ANDed": {"the name matches, the annotation does not", selectors{nameAndAnnotation}, false,
			target(marks{"a": ""}), notSelected(`targetSelectors[0].annotations[0] (a exists) is not met`)},
		"requirements are ANDed": {"one of two is met", selectors{byLabel(require("a", "=", "1"), require("b", "=", "2"))},
			false, target(marks{"a": "1"}), notSelected(`targetSelectors[0].labels[1] (b = "2") is not met`)},
		"targets are ORed": {"the second has the name", selectors{byName(
			v1alpha1.ObjectReference{Name: "other"}, v1alpha1.ObjectReference{Name: "prod", Namespace: "default"},
		)}, false, target(nil), selected(0)},
		"namespace": {"a namespace that is given must match",
			selectors{byName(v1alpha1.ObjectReference{Name: "prod", Namespace: "other"})}, false, target(nil),
			notSelected("targetSelectors[0].targets do not name it")},
		"annotation": {"an annotation can have a value that no label can",
			selectors{{Annotations: []v1alpha1.Requirement{require("note", "=", "two words, ü")}}}, false, annotated,
			selected(0)},
		"three selectors": {"a message accounts for them", selectors{prod, prod, prod}, false, target(nil),
			notSelected(mismatch(0), mismatch(1), mismatch(2))},
		"many selectors": {"a message accounts for a few", selectors{prod, prod, prod, prod, prod}, false, target(nil),
			notSelected(mismatch(0), mismatch(1), mismatch(2), "and 2 more")},
		"many values": {"a message quotes a few",
			selectors{byLabel(require("a", "in", "1", "2", "3", "4", "5", "6"))}, false, target(nil),
			notSelected(`targetSelectors[0].labels[0] (a in "1" "2" "3" "4" "5" …) is not met`)},
	} {
		t.Run(name, func(t *testing.T) {
			compiled, errs := selector.Compile(tc.selectors, nil)
			if len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			if diff := cmp.Diff(tc.want, compiled.Select(!tc.noTarget, tc.target)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if got := compiled.Empty(); got != (len(tc.selectors) == 0) {
				t.Errorf("%s: Empty() = %t", tc.reason, got)
			}
		})
	}
}

// For labels, our requirements are those of Kubernetes.
// Rule (host-configuration.md#target-selectors): Requirements for labels mean what they mean in Kubernetes.
func TestRequirementsAgreeWithKubernetes(t *testing.T) {
	operators := []selection.Operator{
		selection.Equals, selection.DoubleEquals, selection.NotEquals, selection.In, selection.NotIn,
		selection.Exists, selection.DoesNotExist, selection.GreaterThan, selection.LessThan, "other",
	}
	texts := []string{"", "a", "1", "2", "10", "007", "9223372036854775808"}
	lists := [][]string{nil}
	targets := []*v1alpha1.Target{target(nil)}
	for _, text := range texts {
		targets = append(targets, target(map[string]string{"k": text}))
		lists = append(lists, []string{text}, []string{"a", text})
	}
	for _, operator := range operators {
		for _, values := range lists {
			theirs, err := labels.NewRequirement("k", operator, slices.Clone(values))
			ours, errs := selector.Compile(
				[]v1alpha1.TargetSelector{byLabel(require("k", v1alpha1.RequirementOperator(operator), values...))}, nil)
			if (err != nil) != (len(errs) > 0) {
				t.Errorf("%s %q: Kubernetes says %v, we say %v", operator, values, err, errs)
			}
			if err != nil {
				continue
			}
			for _, object := range targets {
				want := theirs.Matches(labels.Set(object.Labels))
				if got := ours.Select(true, object).Responsible; got != want {
					t.Errorf("%s matches %v: Kubernetes says %t, we say %t", theirs, object.Labels, want, got)
				}
			}
		}
	}
}

func TestCompileReportsEverythingAtOnce(t *testing.T) {
	_, errs := selector.Compile([]v1alpha1.TargetSelector{
		{Targets: []v1alpha1.ObjectReference{{Name: "a"}, {Namespace: "n"}}},
		{
			Annotations: []v1alpha1.Requirement{require("", "exists"), require("a", "is", "b"), require("a", "=")},
			Labels: []v1alpha1.Requirement{
				require("a", "in"), require("a", "exists", "b"), require("a", "gt"), require("a", "lt", "1.5"),
				require("", v1alpha1.RequirementOperator(strings.Repeat("x", 1000))),
			},
		},
	}, nil)
	var got []string
	for _, err := range errs {
		got = append(got, err.Field+": "+err.Detail)
	}
	const known = "expected one of =, ==, !=, in, notin, exists, !, gt, lt, but found "
	want := []string{
		`targetSelectors[0].targets[1].name: expected the name of a Target, but it is empty`,
		`targetSelectors[1].annotations[0].key: expected the key of an annotation or label, but it is empty`,
		`targetSelectors[1].annotations[1].operator: ` + known + `"is"`,
		`targetSelectors[1].annotations[2].values: operator "=" takes exactly one value, but found 0`,
		`targetSelectors[1].labels[0].values: operator "in" takes one value or more, but found none`,
		`targetSelectors[1].labels[1].values: operator "exists" takes no values, but found 1`,
		`targetSelectors[1].labels[2].values: operator "gt" takes exactly one integer, but found 0 values`,
		`targetSelectors[1].labels[3].values[0]: operator "lt" takes an integer, but found "1.5"`,
		`targetSelectors[1].labels[4].key: expected the key of an annotation or label, but it is empty`,
		`targetSelectors[1].labels[4].operator: ` + known + `"` + strings.Repeat("x", 61) + `…"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}
