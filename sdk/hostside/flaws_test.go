package hostside

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func failure(errs ...*deployerv1.Error) *deployerv1.Result {
	return &deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: &deployerv1.Failed{Errors: errs}}}
}

func wait(waitingFor string, pollAfter time.Duration) *deployerv1.Result {
	return &deployerv1.Result{Outcome: &deployerv1.Result_InProgress{InProgress: &deployerv1.InProgress{
		WaitingFor: waitingFor, PollAfter: durationpb.New(pollAfter),
	}}}
}

func success(exports, status string, conditions ...*deployerv1.Condition) *deployerv1.Result {
	return &deployerv1.Result{
		ProviderStatus: []byte(status), Conditions: conditions,
		Outcome: &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{Exports: []byte(exports)}},
	}
}

// TestFlaws: one table for both sides. Each flaw is a breach of a rule for package conformance; the host refuses the
// result, or goes on with a repaired one.
// Rule (protocol.md#misbehaving-plugins, TestFlaws): Host and `pergola plugins verify` find the same flaws in a result.
func TestFlaws(t *testing.T) {
	t.Parallel()
	good := &deployerv1.Error{Reason: "QuotaExceeded", Message: "no room"}
	with := func(change func(*deployerv1.Error)) *deployerv1.Result {
		e := &deployerv1.Error{Reason: good.GetReason(), Message: good.GetMessage()}
		change(e)
		return failure(e)
	}
	long := strings.Repeat("x", MaxMessage+1)
	for name, test := range map[string]struct {
		in *deployerv1.Result
		// flaw is a part of its text; empty for none.
		flaw string
		part Part
		// refused is the host's decision; otherwise error is what it goes on with.
		refused bool
		error   *Error
	}{
		"a wait":                {in: wait("a pod", time.Second)},
		"a wait for nothing":    {in: wait("", 0), flaw: "does not say what it waits for", refused: true},
		"a wait for a space":    {in: wait(" ", 0), flaw: "does not say what it waits for", refused: true},
		"a wait of the past":    {in: wait("a pod", -1), flaw: "until the next call is -1ns"},
		"a wait without an end": {in: wait(long, 0), flaw: "the awaited event has 8193 bytes"},

		"an error": {in: failure(good), error: &Error{Reason: "QuotaExceeded", Message: "no room"}},
		"no error": {
			in: failure(), flaw: "without an error", error: &Error{Reason: sdk.ReasonError, Message: unexplained},
		},
		"too many errors": {
			in: failure(slices.Repeat([]*deployerv1.Error{good}, maxErrors+1)...), flaw: "17 errors; expected at most 16",
		},
		"an error without a text": {
			in: with(func(e *deployerv1.Error) { e.Message = "" }), flaw: `the reason "QuotaExceeded" has no message`,
			error: &Error{Reason: "QuotaExceeded", Message: unexplained},
		},
		"an error without an end": {
			in: with(func(e *deployerv1.Error) { e.Message = long }), flaw: "the message of an error has 8193 bytes",
			error: &Error{Reason: "QuotaExceeded", Message: Bounded(long)},
		},
		"an error without a reason": {
			in: with(func(e *deployerv1.Error) { e.Reason = "" }), flaw: `the error "no room" has the reason ""`,
			error: &Error{Reason: sdk.ReasonError, Message: "no room"},
		},
		"a reason with a space": {
			in: with(func(e *deployerv1.Error) { e.Reason = "no quota" }), flaw: `has the reason "no quota"; expected a word`,
			error: &Error{Reason: sdk.ReasonError, Message: `no room (its reason "no quota" is not in CamelCase)`},
		},
		"a reason without an end": {
			in:   with(func(e *deployerv1.Error) { e.Reason = strings.Repeat("A", maxReason+1) }),
			flaw: "of at most 128 characters",
		},
		"a code that exists": {
			in:    with(func(e *deployerv1.Error) { e.Codes = []string{"ERR_CLEANUP"} }),
			error: &Error{Codes: []v1alpha1.ErrorCode{"ERR_CLEANUP"}, Reason: "QuotaExceeded", Message: "no room"},
		},
		"a code that does not exist": {
			in:    with(func(e *deployerv1.Error) { e.Codes = []string{"ERR_QUOTA"} }),
			flaw:  `has the code "ERR_QUOTA", which does not exist`,
			error: &Error{Reason: "QuotaExceeded", Message: `no room (its code "ERR_QUOTA" does not exist)`},
		},
		"a retry in the past": {
			in: with(func(e *deployerv1.Error) { e.RetryAfter = durationpb.New(-1) }), flaw: "after an error is -1ns",
			error: &Error{Reason: "QuotaExceeded", Message: "no room"},
		},

		"exports":           {in: success(`{"a":1}`, "")},
		"a list exported":   {in: success(`["a"]`, ""), flaw: "exports: expected a JSON object", refused: true},
		"null exported":     {in: success(`null`, ""), flaw: "exports: expected a JSON object", refused: true},
		"bytes exported":    {in: success("{\"a\":\"\xff\"}", ""), flaw: "expected a JSON object in UTF-8", refused: true},
		"a provider status": {in: success("", `{"apiVersion":"v1","kind":"A"}`)},
		"a provider status of no version": {
			in: success("", `{"kind":"A"}`), part: PartProviderStatus, flaw: "with apiVersion and kind", refused: true,
		},
		"a provider status of bytes": {
			in:   success("", "{\"apiVersion\":\"v1\",\"kind\":\"A\xff\"}"),
			part: PartProviderStatus, flaw: "a JSON object in UTF-8", refused: true,
		},
		"a condition": {in: success("", "", &deployerv1.Condition{Type: "A", Status: "True", Reason: "B"})},
		"a condition of the host": {
			in:   success("", "", &deployerv1.Condition{Type: "Ready", Status: "True", Reason: "B"}),
			part: PartConditions, flaw: "the host sets this condition itself", refused: true,
		},
		"a condition without an end": {
			in:   success("", "", &deployerv1.Condition{Type: "A", Status: "True", Reason: "B", Message: long}),
			part: PartConditions, flaw: "the message of a condition has 8193 bytes",
		},
	} {
		out, err := ReadResult(test.in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(out.Flaws) > 1 || (len(out.Flaws) == 1) != (test.flaw != "") || len(out.Flaws) == 1 &&
			(!strings.Contains(out.Flaws[0].Text, test.flaw) || out.Flaws[0].Part != test.part) {
			t.Errorf("%s: expected the flaw %q, but found %v", name, test.flaw, out.Flaws)
		}
		if (out.Refused() != nil) != test.refused {
			t.Errorf("%s: expected refused %t, but found %v", name, test.refused, out.Refused())
		}
		if test.error != nil {
			if diff := cmp.Diff([]Error{*test.error}, out.Errors); diff != "" {
				t.Errorf("%s: errors (-want +got):\n%s", name, diff)
			}
		}
	}
}

// TestFlawsOfAnswers: flaws of answers other than results. The host repairs them; ReadChildren, ReadChanges and
// ReadHoldings refuse others.
func TestFlawsOfAnswers(t *testing.T) {
	t.Parallel()
	wordless := &deployerv1.Error{Reason: "A"}
	for name, found := range map[string][]string{
		"no failure":           FlawsOfFailed(nil),
		"a failure of nothing": FlawsOfFailed(&deployerv1.Failed{}),
		"a hook without an opinion": FlawsOfHooks([]*deployerv1.HookOutcome{
			{Outcome: &deployerv1.HookOutcome_None{None: &deployerv1.NoResult{}}},
		}, true),
		"a hook with an opinion in spite of its promise": FlawsOfHooks([]*deployerv1.HookOutcome{
			{Outcome: &deployerv1.HookOutcome_Result{Result: &deployerv1.HookResult{}}},
		}, true),
		"a hook of the past": FlawsOfHooks([]*deployerv1.HookOutcome{{
			Outcome: &deployerv1.HookOutcome_Result{Result: &deployerv1.HookResult{RequeueAfter: durationpb.New(-1)}},
		}}, false),
		"a hook without a text": FlawsOfHooks([]*deployerv1.HookOutcome{
			{Outcome: &deployerv1.HookOutcome_Error{Error: wordless}},
		}, false),
		"a problem":                FlawsOfProblems([]*deployerv1.Problem{{Message: "expected a text"}}),
		"a problem without a text": FlawsOfProblems([]*deployerv1.Problem{{Field: "text"}}),
	} {
		want := 1
		if slices.Contains([]string{"no failure", "a hook without an opinion", "a problem"}, name) {
			want = 0
		}
		if len(found) != want {
			t.Errorf("%s: expected %d flaws, but found %q", name, want, found)
		}
	}
	problem := ReadProblem(&deployerv1.Problem{Field: "text"})
	if diff := cmp.Diff(sdk.Problem{Field: "text", Message: unexplainedProblem}, problem); diff != "" {
		t.Errorf("a problem without a text (-want +got):\n%s", diff)
	}
}
