package sdk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
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

func TestResponsesAreChecked(t *testing.T) {
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
		conditions []Condition
		// named are parts of the message; none for conditions that are good.
		named []string
	}
	tests := map[string]check{
		"all is as it should be":        {conditions: many[:8]},
		"a type may have 63 characters": {conditions: ofType("A" + strings.Repeat("b", 62))},
		"a reason may say it all":       {conditions: with(func(c *Condition) { c.Message = "" })},
		"a status is no log":            {many, []string{"9 conditions", "at most 8"}},
		"nobody could find it":          {ofType(""), []string{`""`, "CamelCase"}},
		"types are in CamelCase":        {ofType("drifted"), []string{`"drifted"`, "CamelCase"}},
		"64 characters are too many":    {ofType("A" + strings.Repeat("b", 63)), []string{"63"}},
		"a pattern ends with the text":  {ofType("Drifted\n"), []string{"CamelCase"}},
		"one would overwrite the other": {[]Condition{drifted(), drifted()}, []string{`"Drifted"`, "twice"}},
		"Landscaper's status Progressing is unknown to Kubernetes' tools": {
			with(func(c *Condition) { c.Status = v1alpha1.ConditionProgressing }),
			[]string{`"Drifted"`, `"Progressing"`, "Unknown"},
		},
		"a status is required": {with(func(c *Condition) { c.Status = "" }), []string{`"Drifted"`, "True"}},
		"a reason is required": {with(func(c *Condition) { c.Reason = "" }), []string{`"Drifted"`, "reason"}},
		"a reason is for machines": {
			with(func(c *Condition) { c.Reason = "has drifted" }), []string{`"has drifted"`},
		},
		"an author fixes all in one go": {
			append(ofType("drifted"), with(func(c *Condition) { c.Reason = "" })...), []string{`"drifted"`, `"Drifted"`},
		},
	}
	for _, own := range HostConditions() {
		tests["the host would overwrite "+string(own)] = check{ofType(string(own)), []string{string(own), "host sets"}}
	}
	for reason, tc := range tests {
		result := resultToWire("Reconcile", &Request{}, &Response{Conditions: tc.conditions}, nil)
		if tc.named == nil {
			if result.GetSucceeded() == nil || len(result.GetConditions()) != len(tc.conditions) {
				t.Errorf("%s: expected success with %d conditions, but found %v", reason, len(tc.conditions), result)
			}
			continue
		}
		message := wantInternalProblem(t, result)
		for _, part := range tc.named {
			if !strings.Contains(message, part) {
				t.Errorf("%s: expected the message to name %s, but found: %s", reason, part, message)
			}
		}
	}
	noJSON := &Response{Exports: map[string]any{"a": func() {}}}
	wantInternalProblem(t, resultToWire("Reconcile", &Request{}, noJSON, nil))
}

// wantInternalProblem returns the message of a result that is a failure with one error, and has no conditions.
func wantInternalProblem(t *testing.T, result *deployerv1.Result) string {
	t.Helper()
	errs := result.GetFailed().GetErrors()
	if len(errs) != 1 || !slices.Equal(errs[0].GetCodes(), []string{string(v1alpha1.ErrorInternalProblem)}) ||
		len(result.GetConditions()) > 0 {
		t.Errorf("expected an internal problem without conditions, but found %v", result)
		return ""
	}
	return errs[0].GetMessage()
}

// Rule (protocol.md#error-codes): A wait beside an error is the pause before the next call.
func TestLater(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err        error
		inProgress *InProgress
		want       time.Duration
	}{
		{errors.New("no"), nil, 0},
		{fmt.Errorf("put: %w", &Error{RetryAfter: time.Minute}), nil, time.Minute},
		{errors.New("no"), &InProgress{WaitingFor: "quota", PollAfter: time.Minute}, time.Minute},
		{&Error{RetryAfter: time.Hour}, &InProgress{WaitingFor: "quota", PollAfter: time.Minute}, time.Hour},
		{&Error{RetryAfter: time.Second}, &InProgress{WaitingFor: "quota", PollAfter: time.Minute}, time.Minute},
		{errors.Join(&Error{RetryAfter: time.Second}, &Error{RetryAfter: time.Hour}), nil, time.Hour},
	} {
		failed := resultToWire("Reconcile", &Request{}, &Response{InProgress: tc.inProgress}, tc.err).GetFailed()
		if len(failed.GetErrors()) != 1 || failed.GetErrors()[0].GetRetryAfter().AsDuration() != tc.want {
			t.Errorf("%v, %+v: expected %s, but found %v", tc.err, tc.inProgress, tc.want, failed)
		}
	}
}
