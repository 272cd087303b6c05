package responsibility_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// target returns a Target default/prod with modifications.
func target(modify ...func(*v1alpha1.Target)) *v1alpha1.Target {
	t := &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "prod"}}
	for _, m := range modify {
		m(t)
	}
	return t
}

func label(key, value string) func(*v1alpha1.Target) {
	return func(t *v1alpha1.Target) { metav1.SetMetaDataLabel(&t.ObjectMeta, key, value) }
}

func annotation(key, value string) func(*v1alpha1.Target) {
	return func(t *v1alpha1.Target) { metav1.SetMetaDataAnnotation(&t.ObjectMeta, key, value) }
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

func compile(t testing.TB, selectors ...v1alpha1.TargetSelector) responsibility.Selectors {
	t.Helper()
	compiled, errs := responsibility.Compile(selectors, nil)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return compiled
}

func TestDecide(t *testing.T) {
	t.Parallel()
	prod := byLabel(require("env", "in", "prod"))
	cases := map[string]struct {
		reason    string
		selectors []v1alpha1.TargetSelector
		noTarget  bool
		target    metav1.Object
		want      responsibility.Decision
	}{
		"no selectors": {
			reason: "nothing is selected, so that everything is ours", target: target(),
			want: responsibility.Decision{Responsible: true, Reason: responsibility.ReasonNoSelectors, Message: "there are no target selectors"},
		},
		"no selectors, missing": {
			reason: "who is responsible for all is so for a missing Target",
			want:   responsibility.Decision{Responsible: true, Reason: responsibility.ReasonNoSelectors, Message: "there are no target selectors"},
		},
		"no target": {
			reason: "selectors are not consulted", selectors: []v1alpha1.TargetSelector{prod}, noTarget: true,
			want: responsibility.Decision{Responsible: true, Reason: responsibility.ReasonNoTarget, Message: "the item has no target, which every target selector lets pass"},
		},
		"missing": {
			reason: "nobody knows whose it would be", selectors: []v1alpha1.TargetSelector{{}},
			want: responsibility.Decision{Reason: responsibility.ReasonTargetNotFound, Message: "the Target is missing, so that no target selector can match it"},
		},
		"missing, typed": {
			reason: "a nil pointer is no Target", selectors: []v1alpha1.TargetSelector{{}}, target: (*v1alpha1.Target)(nil),
			want: responsibility.Decision{Reason: responsibility.ReasonTargetNotFound, Message: "the Target is missing, so that no target selector can match it"},
		},
		"empty selector": {
			reason: "without conditions all are met", selectors: []v1alpha1.TargetSelector{{}}, target: target(),
			want: responsibility.Decision{Responsible: true, Reason: responsibility.ReasonSelected, Message: `Target "default/prod" is selected by targetSelectors[0]`},
		},
		"entries are ORed": {
			reason: "the second matches", selectors: []v1alpha1.TargetSelector{byName(v1alpha1.ObjectReference{Name: "other"}), prod},
			target: target(label("env", "prod")),
			want:   responsibility.Decision{Responsible: true, Reason: responsibility.ReasonSelected, Message: `Target "default/prod" is selected by targetSelectors[1]`},
		},
		"fields are ANDed": {
			reason: "the name matches, the annotation does not",
			selectors: []v1alpha1.TargetSelector{{
				Targets: []v1alpha1.ObjectReference{{Name: "prod"}}, Annotations: []v1alpha1.Requirement{require("a", "exists")},
			}},
			target: target(label("a", "")),
			want:   responsibility.Decision{Reason: responsibility.ReasonNotSelected, Message: `Target "default/prod" is not selected: targetSelectors[0].annotations[0] (a exists) is not met`},
		},
		"requirements are ANDed": {
			reason: "one of two is met", selectors: []v1alpha1.TargetSelector{byLabel(require("a", "=", "1"), require("b", "=", "2"))},
			target: target(label("a", "1")),
			want:   responsibility.Decision{Reason: responsibility.ReasonNotSelected, Message: `Target "default/prod" is not selected: targetSelectors[0].labels[1] (b = "2") is not met`},
		},
		"targets are ORed": {
			reason: "the second has the name", selectors: []v1alpha1.TargetSelector{byName(v1alpha1.ObjectReference{Name: "other"}, v1alpha1.ObjectReference{Name: "prod", Namespace: "default"})},
			target: target(),
			want:   responsibility.Decision{Responsible: true, Reason: responsibility.ReasonSelected, Message: `Target "default/prod" is selected by targetSelectors[0]`},
		},
		"namespace": {
			reason: "a namespace that is given must match", selectors: []v1alpha1.TargetSelector{byName(v1alpha1.ObjectReference{Name: "prod", Namespace: "other"})},
			target: target(),
			want:   responsibility.Decision{Reason: responsibility.ReasonNotSelected, Message: `Target "default/prod" is not selected: targetSelectors[0].targets do not name it`},
		},
		"annotation": {
			reason:    "an annotation can have a value that no label can",
			selectors: []v1alpha1.TargetSelector{{Annotations: []v1alpha1.Requirement{require("note", "=", "two words, ü")}}},
			target:    target(annotation("note", "two words, ü")),
			want:      responsibility.Decision{Responsible: true, Reason: responsibility.ReasonSelected, Message: `Target "default/prod" is selected by targetSelectors[0]`},
		},
		"many": {
			reason: "a message accounts for a few", selectors: []v1alpha1.TargetSelector{prod, prod, prod, prod, prod}, target: target(),
			want: responsibility.Decision{Reason: responsibility.ReasonNotSelected, Message: `Target "default/prod" is not selected: targetSelectors[0].labels[0] (env in "prod") is not met, ` +
				`targetSelectors[1].labels[0] (env in "prod") is not met, targetSelectors[2].labels[0] (env in "prod") is not met, and 2 more`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			selectors := compile(t, tc.selectors...)
			if diff := cmp.Diff(tc.want, selectors.Decide(!tc.noTarget, tc.target)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if got := selectors.Empty(); got != (len(tc.selectors) == 0) {
				t.Errorf("%s: Empty() = %t", tc.reason, got)
			}
		})
	}
}

func TestZeroSelectors(t *testing.T) {
	t.Parallel()
	var zero responsibility.Selectors
	if d := zero.Decide(true, nil); !d.Responsible || !zero.Empty() {
		t.Errorf("expected the zero value to be responsible for all, but found %+v", d)
	}
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason      string
		requirement v1alpha1.Requirement
		matches     []string // values of the label k
		others      []string
		missing     bool // whether a missing label matches
	}{
		"=":      {reason: "equality", requirement: require("k", "=", "a"), matches: []string{"a"}, others: []string{"", "b", "A"}},
		"==":     {reason: "the same", requirement: require("k", "==", "a"), matches: []string{"a"}, others: []string{"", "b"}},
		"!=":     {reason: "a missing key has another value", requirement: require("k", "!=", "a"), matches: []string{"", "b"}, others: []string{"a"}, missing: true},
		"in":     {reason: "one of them", requirement: require("k", "in", "a", "b"), matches: []string{"a", "b"}, others: []string{"", "c"}},
		"notin":  {reason: "a missing key has none of them", requirement: require("k", "notin", "a", "b"), matches: []string{"", "c"}, others: []string{"a", "b"}, missing: true},
		"exists": {reason: "any value, even none", requirement: require("k", "exists"), matches: []string{"", "a"}},
		"!":      {reason: "no value, not even none", requirement: require("k", "!"), others: []string{"", "a"}, missing: true},
		"gt":     {reason: "numbers, not texts", requirement: require("k", "gt", "9"), matches: []string{"10", "9223372036854775807"}, others: []string{"9", "8", "-10", "", "x", "9.5", "9223372036854775808"}},
		"lt":     {reason: "numbers, not texts", requirement: require("k", "lt", "9"), matches: []string{"8", "-10"}, others: []string{"9", "10", "", "x"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			selectors := compile(t, byLabel(tc.requirement))
			check := func(what string, o metav1.Object, want bool) {
				if got := selectors.Decide(true, o).Responsible; got != want {
					t.Errorf("%s: %s: expected %t, but found %t", tc.reason, what, want, got)
				}
			}
			for _, value := range tc.matches {
				check(value, target(label("k", value)), true)
			}
			for _, value := range tc.others {
				check(value, target(label("k", value)), false)
			}
			check("missing", target(), tc.missing)
		})
	}
}

func TestCompileReportsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	_, errs := responsibility.Compile([]v1alpha1.TargetSelector{
		{Targets: []v1alpha1.ObjectReference{{Name: "a"}, {Namespace: "n"}}},
		{
			Annotations: []v1alpha1.Requirement{require("", "exists"), require("a", "is", "b"), require("a", "=")},
			Labels: []v1alpha1.Requirement{
				require("a", "=", "b", "c"), require("a", "!="), require("a", "in"), require("a", "notin"), require("a", "exists", "b"),
				require("a", "!", "b"), require("a", "gt"), require("a", "gt", "1", "2"), require("a", "lt", "1.5"),
				require("", "", "b"), require("a", v1alpha1.RequirementOperator(strings.Repeat("x", 1000))),
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
		`targetSelectors[1].labels[0].values: operator "=" takes exactly one value, but found 2`,
		`targetSelectors[1].labels[1].values: operator "!=" takes exactly one value, but found 0`,
		`targetSelectors[1].labels[2].values: operator "in" takes one value or more, but found none`,
		`targetSelectors[1].labels[3].values: operator "notin" takes one value or more, but found none`,
		`targetSelectors[1].labels[4].values: operator "exists" takes no values, but found 1`,
		`targetSelectors[1].labels[5].values: operator "!" takes no values, but found 1`,
		`targetSelectors[1].labels[6].values: operator "gt" takes exactly one integer, but found 0 values`,
		`targetSelectors[1].labels[7].values: operator "gt" takes exactly one integer, but found 2 values`,
		`targetSelectors[1].labels[8].values[0]: operator "lt" takes an integer, but found "1.5"`,
		`targetSelectors[1].labels[9].key: expected the key of an annotation or label, but it is empty`,
		`targetSelectors[1].labels[9].operator: ` + known + `""`,
		`targetSelectors[1].labels[10].operator: ` + known + `"` + strings.Repeat("x", 64) + `..."`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// What the caller does to its list afterwards changes no decision.
func TestSelectorsAreCopies(t *testing.T) {
	t.Parallel()
	list := []v1alpha1.TargetSelector{{Targets: []v1alpha1.ObjectReference{{Name: "prod"}}, Labels: []v1alpha1.Requirement{require("a", "in", "b")}}}
	selectors := compile(t, list...)
	list[0].Targets[0].Name, list[0].Labels[0].Values[0] = "x", "x"
	if d := selectors.Decide(true, target(label("a", "b"))); !d.Responsible {
		t.Error(d.Message)
	}
}

// For labels, our requirements are those of Kubernetes.
func TestRequirementsAgreeWithKubernetes(t *testing.T) {
	t.Parallel()
	operator := rapid.SampledFrom([]selection.Operator{
		selection.Equals, selection.DoubleEquals, selection.NotEquals, selection.In, selection.NotIn,
		selection.Exists, selection.DoesNotExist, selection.GreaterThan, selection.LessThan, "other",
	})
	value := rapid.SampledFrom([]string{"", "a", "b", "1", "2", "10", "007", "9223372036854775808"})
	rapid.Check(t, func(rt *rapid.T) {
		op := operator.Draw(rt, "operator")
		values := rapid.SliceOfN(value, 0, 3).Draw(rt, "values")
		set := rapid.MapOf(rapid.SampledFrom([]string{"k", "l"}), value).Draw(rt, "labels")

		theirs, err := labels.NewRequirement("k", op, values)
		ours, errs := responsibility.Compile([]v1alpha1.TargetSelector{byLabel(require("k", v1alpha1.RequirementOperator(op), values...))}, nil)
		if (err != nil) != (len(errs) > 0) {
			rt.Fatalf("Kubernetes says %v, we say %v", err, errs)
		}
		if err != nil {
			return
		}
		o := target()
		o.Labels = set
		if want, got := theirs.Matches(labels.Set(set)), ours.Decide(true, o).Responsible; got != want {
			rt.Fatalf("%s matches %v: Kubernetes says %t, we say %t", theirs, set, want, got)
		}
	})
}

func FuzzSelectors(f *testing.F) {
	seeds := []struct{ selectors, target string }{
		{`[]`, `{"name":"a","namespace":"n"}`},
		{`[{}]`, `{"name":"a","labels":{"a":"b"}}`},
		{`[{"targets":[{"name":"a"},{"name":"b","namespace":"n"}]}]`, `{"name":"b","namespace":"n"}`},
		{`[{"labels":[{"key":"env","operator":"in","values":["prod","dev"]}],"annotations":[{"key":"x","operator":"!"}]}]`, `{"name":"a","labels":{"env":"dev"}}`},
		{`[{"labels":[{"key":"n","operator":"gt","values":["9"]}]},{"labels":[{"key":"n","operator":"lt","values":["-9"]}]}]`, `{"labels":{"n":"10"}}`},
		{`[{"annotations":[{"key":"n","operator":"!=","values":[" ü\u0000"]},{"key":"m","operator":"notin","values":["",""]}]}]`, `{"annotations":{"n":"x"}}`},
		{`[{"labels":[{"key":"","operator":"?"}]}]`, `null`},
	}
	for _, seed := range seeds {
		f.Add([]byte(seed.selectors), []byte(seed.target), true)
		f.Add([]byte(seed.selectors), []byte(seed.target), false)
	}
	f.Fuzz(func(t *testing.T, selectorsJSON, metaJSON []byte, hasTarget bool) {
		var list []v1alpha1.TargetSelector
		var meta *metav1.ObjectMeta
		if json.Unmarshal(selectorsJSON, &list) != nil || json.Unmarshal(metaJSON, &meta) != nil {
			return
		}
		all, errs := responsibility.Compile(list, nil)
		for _, err := range errs {
			if !strings.HasPrefix(err.Field, "targetSelectors[") || err.Detail == "" {
				t.Errorf("an error without field or message: %v", err)
			}
		}
		if len(errs) > 0 {
			return
		}
		decide := func(s responsibility.Selectors) responsibility.Decision {
			d := s.Decide(hasTarget, meta)
			if d != s.Decide(hasTarget, meta) {
				t.Error("the same question has two answers")
			}
			if d.Reason == "" || d.Message == "" {
				t.Errorf("a decision without reason or message: %+v", d)
			}
			return d
		}
		if d := decide(compile(t)); !d.Responsible {
			t.Errorf("the empty list is responsible for all, but found: %s", d.Message)
		}
		if d := decide(all); !hasTarget && !d.Responsible {
			t.Errorf("an item without target is everybody's, but found: %s", d.Message)
		}
		if d := decide(all); hasTarget && meta == nil && d.Responsible != (len(list) == 0) {
			t.Errorf("a missing Target belongs to those who select nothing, but found: %s", d.Message)
		}
		matched := false
		for n := range list { // one entry more never takes a match away
			now := decide(compile(t, list[:n+1]...)).Responsible
			if matched && !now {
				t.Errorf("entry %d makes a match a mismatch", n)
			}
			matched = now
		}
	})
}

func TestTargetOf(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason      string
		annotations map[string]string
		want        string
	}{
		"annotated": {reason: "the metadata repeats the name", annotations: map[string]string{v1alpha1.DeployerTargetNameAnnotation: "prod"}, want: `"prod" true true`},
		"none":      {reason: "the metadata says that there is none", annotations: map[string]string{v1alpha1.DeployerTargetNameAnnotation: v1alpha1.NoTargetName}, want: `"" false true`},
		"unknown":   {reason: "the metadata does not say", want: `"" false false`},
		"empty":     {reason: "no name is empty", annotations: map[string]string{v1alpha1.DeployerTargetNameAnnotation: ""}, want: `"" false false`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, hasTarget, known := responsibility.TargetOf(&metav1.ObjectMeta{Annotations: tc.annotations})
			if got := fmt.Sprintf("%q %t %t", found, hasTarget, known); got != tc.want {
				t.Errorf("%s: expected %s, but found %s", tc.reason, tc.want, got)
			}
		})
	}
}

func TestTargetOfItem(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		target *v1alpha1.ObjectReference
		want   string
	}{
		"target":  {reason: "it has one", target: &v1alpha1.ObjectReference{Name: "prod"}, want: `"prod" true`},
		"none":    {reason: "it has none", want: `"" false`},
		"no name": {reason: "a reference without a name is none", target: &v1alpha1.ObjectReference{Namespace: "n"}, want: `"" false`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := &v1alpha1.DeployItem{Spec: v1alpha1.DeployItemSpec{Target: tc.target}}
			found, hasTarget := responsibility.TargetOfItem(item)
			if got := fmt.Sprintf("%q %t", found, hasTarget); got != tc.want {
				t.Errorf("%s: expected %s, but found %s", tc.reason, tc.want, got)
			}
			if annotated, hasToo, known := responsibility.TargetOf(&metav1.ObjectMeta{Annotations: responsibility.Annotations(item)}); annotated != found || hasToo != hasTarget || !known {
				t.Errorf("%s: the annotations of the item say %q %t %t", tc.reason, annotated, hasToo, known)
			}
		})
	}
}
