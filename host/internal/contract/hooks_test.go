package contract_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestReport(t *testing.T) {
	t.Parallel()
	item := &v1alpha1.DeployItem{}
	for _, step := range []struct {
		reason               string
		reported             []v1alpha1.Condition
		labelled, registered v1alpha1.ConditionStatus
	}{
		{"declared ones are there from the start", nil, isUnknown, isUnknown},
		{"others do not count", []v1alpha1.Condition{
			{Type: "Labelled", Status: isTrue, Reason: "Done"}, {Type: "Ready", Status: isTrue, Reason: "Lie"},
		}, isTrue, isUnknown},
		{"what is not reported again stays",
			[]v1alpha1.Condition{{Type: "Registered", Status: isFalse, Reason: "Later"}}, isTrue, isFalse},
	} {
		contract.Report(item, []v1alpha1.ConditionType{"Labelled", "Registered"}, step.reported, noon)
		if len(item.Status.Conditions) != 2 || conditionOf(item, "Labelled").Status != step.labelled ||
			conditionOf(item, "Registered").Status != step.registered {
			t.Errorf("%s: found %v", step.reason, item.Status.Conditions)
		}
	}
}

func TestSucceedWith(t *testing.T) {
	t.Parallel()
	for reason, tc := range map[string]struct {
		a, b    v1alpha1.ConditionStatus // empty for one that is not declared
		want    v1alpha1.ConditionStatus
		message string
	}{
		"the job alone counts":       {"", "", isTrue, "the job succeeded"},
		"all are true":               {isTrue, isTrue, isTrue, "the job succeeded"},
		"one is unknown":             {isTrue, isUnknown, isUnknown, "B: said Unknown"},
		"one is false":               {isFalse, isUnknown, isFalse, "A: said False"},
		"False is more than Unknown": {isUnknown, isFalse, isFalse, "B: said False"},
	} {
		item := newItem(begun)
		var declared []v1alpha1.ConditionType
		var reported []v1alpha1.Condition
		for conditionType, status := range map[v1alpha1.ConditionType]v1alpha1.ConditionStatus{"A": tc.a, "B": tc.b} {
			if status != "" {
				declared = append(declared, conditionType)
				reported = append(reported, newCondition(conditionType, status, "R", "said "+string(status), 0))
			}
		}
		slices.Sort(declared)
		contract.Report(item, declared, reported, noon)
		contract.SucceedWith(item, declared, noon)
		if c := conditionOf(item, ready); c == nil || c.Status != tc.want || c.Message != tc.message {
			t.Errorf("%s: unexpected condition: %+v", reason, c)
		}
		if item.Status.Phase != succeeded || item.Status.JobIDFinished != item.Status.JobID {
			t.Errorf("%s: phase %s", reason, item.Status.Phase)
		}
		failWith(t, reason, cmp.Diff(do(contract.Nothing), contract.Decide(item, noon)))
	}
}

// Rule (hooks.md#answers): A failed hook is not reported beside a success.
func TestHookConditions(t *testing.T) {
	t.Parallel()
	item := &v1alpha1.DeployItem{}
	fails := func() {
		contract.HookFailed(item, contract.Error{Reason: "HTTPHookTimeout", Message: "no answer"}, noon)
	}
	for _, step := range []struct {
		reason string
		do     func()
		want   string // status and message; empty for none
	}{
		{"there is nothing to tell", func() { contract.HookAnswered(item, noon) }, ""},
		{"a failure is told", fails, "False no answer"},
		{"it has answered since", func() { contract.HookAnswered(item, noon) }, "True the hook has answered"},
		{"a good answer is told beside a success", func() { contract.Succeed(item, noon) }, "True the hook has answered"},
		{"another failure", fails, "False no answer"},
		{"a failure is not told beside a success", func() { contract.Succeed(item, noon) }, ""},
	} {
		step.do()
		got := ""
		if c := conditionOf(item, contract.ConditionHookAnswered); c != nil {
			got = string(c.Status) + " " + c.Message
		}
		failWith(t, step.reason, cmp.Diff(step.want, got))
	}
	if contract.IsFinalized(item, "a") {
		t.Error("no hook was asked")
	}
	contract.NoteFinalized(item, "a", noon)
	if !contract.IsFinalized(item, "a") || contract.IsFinalized(item, "b") {
		t.Error("only one was asked")
	}
}

func conditionOf(item *v1alpha1.DeployItem, conditionType v1alpha1.ConditionType) *v1alpha1.Condition {
	for i := range item.Status.Conditions {
		if item.Status.Conditions[i].Type == conditionType {
			return &item.Status.Conditions[i]
		}
	}
	return nil
}
