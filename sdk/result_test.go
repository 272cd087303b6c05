package sdk

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func drifted() Condition {
	return Condition{Type: "Drifted", Status: v1alpha1.ConditionTrue, Reason: "Repaired", Message: "spec.replicas was 3"}
}

// Provider status and conditions are about the item, and so they come with each outcome: they tell what the call did,
// also before it failed.
func TestWhatComesWithEachOutcome(t *testing.T) {
	t.Parallel()
	want := []string{"Drifted", "True", "Repaired", "spec.replicas was 3"}
	for _, tc := range []struct {
		inProgress *InProgress
		err        error
	}{{nil, nil}, {&InProgress{WaitingFor: "x"}, nil}, {nil, errors.New("no")}} {
		result := resultToWire("Reconcile", &Request{}, &Response{
			Conditions: []Condition{drifted()}, InProgress: tc.inProgress,
			ProviderStatus: testStatus{APIVersion: "a/v1", Kind: "B"},
		}, tc.err)
		if len(result.GetConditions()) != 1 || len(result.GetProviderStatus()) == 0 {
			t.Errorf("expected one condition and a provider status, but found %v", result)
			continue
		}
		got := result.GetConditions()[0]
		if diff := cmp.Diff(want, []string{got.GetType(), got.GetStatus(), got.GetReason(), got.GetMessage()}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestExportsThatAreNoJSON(t *testing.T) {
	t.Parallel()
	result := resultToWire("Reconcile", &Request{}, &Response{Exports: map[string]any{"a": func() {}}}, nil)
	errs := result.GetFailed().GetErrors()
	if len(errs) != 1 || errs[0].GetCodes()[0] != string(v1alpha1.ErrorInternalProblem) {
		t.Errorf("expected an internal problem, but found %v", result)
	}
}

func TestConditionsAreChecked(t *testing.T) {
	t.Parallel()
	with := func(change func(*Condition)) []Condition {
		c := drifted()
		change(&c)
		return []Condition{c}
	}
	ofType := func(conditionType string) []Condition {
		return with(func(c *Condition) { c.Type = v1alpha1.ConditionType(conditionType) })
	}
	many := make([]Condition, 9)
	for i := range many {
		many[i] = drifted()
		many[i].Type = v1alpha1.ConditionType(fmt.Sprintf("Drifted%d", i))
	}
	type check struct {
		reason     string
		conditions []Condition
		// named are parts of the message; none for conditions that are good.
		named []string
	}
	tests := map[string]check{
		"Good":        {reason: "all is as it should be", conditions: many[:8]},
		"LongestType": {reason: "63 characters are allowed", conditions: ofType("A" + strings.Repeat("b", 62))},
		"NoMessage":   {reason: "a reason may say it all", conditions: with(func(c *Condition) { c.Message = "" })},
		"TooMany":     {"a status is no log", many, []string{"9 conditions", "at most 8"}},
		"NoType":      {"nobody could find it", ofType(""), []string{`""`, "CamelCase"}},
		"SmallType":   {"types are in CamelCase", ofType("drifted"), []string{`"drifted"`, "CamelCase"}},
		"TooLongType": {"64 characters are too many", ofType("A" + strings.Repeat("b", 63)), []string{"63"}},
		"Newline":     {"a pattern ends with the text", ofType("Drifted\n"), []string{"CamelCase"}},
		"Progressing": {
			"Landscaper's fourth status is unknown to Kubernetes' tools",
			with(func(c *Condition) { c.Status = v1alpha1.ConditionProgressing }),
			[]string{`"Drifted"`, `"Progressing"`, "Unknown"},
		},
		"NoStatus": {"it is required", with(func(c *Condition) { c.Status = "" }), []string{`"Drifted"`, "True"}},
		"NoReason": {
			"Kubernetes requires one", with(func(c *Condition) { c.Reason = "" }), []string{`"Drifted"`, "reason"},
		},
		"Sentence": {
			"a reason is for machines", with(func(c *Condition) { c.Reason = "has drifted" }),
			[]string{`"has drifted"`},
		},
		"Twice": {"one would overwrite the other", []Condition{drifted(), drifted()}, []string{`"Drifted"`, "twice"}},
		"AllAtOnce": {
			"an author fixes them in one go",
			append(ofType("drifted"), with(func(c *Condition) { c.Reason = "" })...), []string{`"drifted"`, `"Drifted"`},
		},
	}
	for _, own := range HostConditions() {
		tests["Hosts"+string(own)] = check{"it would be overwritten", ofType(string(own)), []string{string(own), "host sets"}}
	}
	for name, tc := range tests {
		result := resultToWire("Reconcile", &Request{}, &Response{Conditions: tc.conditions}, nil)
		if tc.named == nil {
			if result.GetSucceeded() == nil || len(result.GetConditions()) != len(tc.conditions) {
				t.Errorf("%s: %s: expected success with %d conditions, but found %v", name, tc.reason, len(tc.conditions), result)
			}
			continue
		}
		if len(result.GetFailed().GetErrors()) != 1 || len(result.GetConditions()) > 0 {
			t.Errorf("%s: %s: expected a failure without conditions, but found %v", name, tc.reason, result)
			continue
		}
		found := result.GetFailed().GetErrors()[0]
		if diff := cmp.Diff([]string{string(v1alpha1.ErrorInternalProblem)}, found.GetCodes()); diff != "" {
			t.Errorf("%s: codes (-want +got):\n%s", name, diff)
		}
		for _, part := range tc.named {
			if !strings.Contains(found.GetMessage(), part) {
				t.Errorf("%s: expected the message to name %s, but found: %s", name, part, found.GetMessage())
			}
		}
	}
}
