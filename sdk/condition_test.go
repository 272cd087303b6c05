package sdk

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func drifted() Condition {
	return Condition{Type: "Drifted", Status: v1alpha1.ConditionTrue, Reason: "Repaired", Message: "spec.replicas was 3"}
}

// A condition is about the item, and so it comes with each outcome.
func TestConditionsComeWithEachOutcome(t *testing.T) {
	t.Parallel()
	want := []string{"Drifted", "True", "Repaired", "spec.replicas was 3"}
	for name, result := range map[string]*deployerv1.Result{
		"succeeded":   resultToWire("Reconcile", &Response{Conditions: []Condition{drifted()}}, nil),
		"in progress": resultToWire("Reconcile", &Response{Conditions: []Condition{drifted()}, InProgress: &InProgress{WaitingFor: "x"}}, nil),
		"failed":      resultToWire("Reconcile", &Response{Conditions: []Condition{drifted()}}, errors.New("no")),
	} {
		if len(result.GetConditions()) != 1 {
			t.Errorf("%s: expected one condition, but found %v", name, result)
			continue
		}
		c := result.GetConditions()[0]
		if diff := cmp.Diff(want, []string{c.GetType(), c.GetStatus(), c.GetReason(), c.GetMessage()}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestConditionsAreChecked(t *testing.T) {
	t.Parallel()
	with := func(change func(*Condition)) []Condition {
		c := drifted()
		change(&c)
		return []Condition{c}
	}
	many := make([]Condition, 9)
	for i := range many {
		many[i] = drifted()
		many[i].Type = v1alpha1.ConditionType(fmt.Sprintf("Drifted%d", i))
	}
	tests := map[string]struct {
		reason     string
		conditions []Condition
		// wantNamed are parts of the message; none for conditions that are good.
		wantNamed []string
	}{
		"Good":             {reason: "all is as it should be", conditions: many[:8]},
		"LongestType":      {reason: "63 characters are allowed", conditions: with(func(c *Condition) { c.Type = v1alpha1.ConditionType("A" + strings.Repeat("b", 62)) })},
		"NoMessage":        {reason: "a reason may say it all", conditions: with(func(c *Condition) { c.Message = "" })},
		"TooMany":          {reason: "a status is no log", conditions: many, wantNamed: []string{"9 conditions", "at most 8"}},
		"NoType":           {reason: "nobody could find it", conditions: with(func(c *Condition) { c.Type = "" }), wantNamed: []string{`""`, "CamelCase"}},
		"SmallType":        {reason: "types are in CamelCase", conditions: with(func(c *Condition) { c.Type = "drifted" }), wantNamed: []string{`"drifted"`, "CamelCase"}},
		"TooLongType":      {reason: "64 characters are too many", conditions: with(func(c *Condition) { c.Type = v1alpha1.ConditionType("A" + strings.Repeat("b", 63)) }), wantNamed: []string{"63"}},
		"Newline":          {reason: "a pattern ends with the text", conditions: with(func(c *Condition) { c.Type = "Drifted\n" }), wantNamed: []string{"CamelCase"}},
		"Progressing":      {reason: "Landscaper's fourth status is unknown to the tools of the field", conditions: with(func(c *Condition) { c.Status = v1alpha1.ConditionProgressing }), wantNamed: []string{`"Drifted"`, `"Progressing"`, "Unknown"}},
		"NoStatus":         {reason: "a condition holds or does not", conditions: with(func(c *Condition) { c.Status = "" }), wantNamed: []string{`"Drifted"`, "True"}},
		"NoReason":         {reason: "Kubernetes requires one", conditions: with(func(c *Condition) { c.Reason = "" }), wantNamed: []string{`"Drifted"`, "reason"}},
		"SentenceAsReason": {reason: "a reason is for machines", conditions: with(func(c *Condition) { c.Reason = "has drifted" }), wantNamed: []string{`"has drifted"`}},
		"Twice":            {reason: "one would overwrite the other", conditions: []Condition{drifted(), drifted()}, wantNamed: []string{`"Drifted"`, "twice"}},
		"AllAtOnce": {
			reason:     "an author mends them in one go",
			conditions: append(with(func(c *Condition) { c.Type = "drifted" }), with(func(c *Condition) { c.Reason = "" })...),
			wantNamed:  []string{`"drifted"`, `"Drifted"`},
		},
	}
	for _, own := range HostConditions() {
		tests["Hosts"+string(own)] = struct {
			reason     string
			conditions []Condition
			wantNamed  []string
		}{
			reason:     "the host would overwrite it, or be misled",
			conditions: with(func(c *Condition) { c.Type = own }),
			wantNamed:  []string{`"` + string(own) + `"`, "host sets"},
		}
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := resultToWire("Reconcile", &Response{Conditions: tc.conditions}, nil)
			if tc.wantNamed == nil {
				if result.GetSucceeded() == nil || len(result.GetConditions()) != len(tc.conditions) {
					t.Errorf("%s: expected success with %d conditions, but found %v", tc.reason, len(tc.conditions), result)
				}
				return
			}
			if len(result.GetFailed().GetErrors()) != 1 || len(result.GetConditions()) > 0 {
				t.Fatalf("%s: expected a failure without conditions, but found %v", tc.reason, result)
			}
			found := result.GetFailed().GetErrors()[0]
			if diff := cmp.Diff([]string{string(v1alpha1.ErrorInternalProblem)}, found.GetCodes()); diff != "" {
				t.Errorf("%s: codes (-want +got):\n%s", tc.reason, diff)
			}
			for _, part := range tc.wantNamed {
				if !strings.Contains(found.GetMessage(), part) {
					t.Errorf("%s: expected the message to name %s, but found: %s", tc.reason, part, found.GetMessage())
				}
			}
		})
	}
}

// gRPC sends no text that is not UTF-8, and so no result at all.
func TestConditionMessageCanBeSent(t *testing.T) {
	t.Parallel()
	c := drifted()
	c.Message = "file \xff is gone"
	result := resultToWire("Reconcile", &Response{Conditions: []Condition{c}}, nil)
	if got := result.GetConditions()[0].GetMessage(); !utf8.ValidString(got) || !strings.HasSuffix(got, " is gone") {
		t.Errorf("the message became %q", got)
	}
}
