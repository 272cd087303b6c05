package contract_test

import (
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestReport(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	item := &v1alpha1.DeployItem{}
	declared := []v1alpha1.ConditionType{"Labelled", "Registered"}
	expect := func(reason string, want map[v1alpha1.ConditionType]v1alpha1.ConditionStatus) {
		t.Helper()
		if len(item.Status.Conditions) != len(want) {
			t.Errorf("%s: unexpected conditions: %v", reason, item.Status.Conditions)
		}
		for conditionType, status := range want {
			if c := conditionOf(item, conditionType); c == nil || c.Status != status {
				t.Errorf("%s: condition %s: expected %s, but found %v", reason, conditionType, status, c)
			}
		}
	}
	contract.Report(item, declared, nil, now)
	expect(
		"declared ones are there from the start",
		map[v1alpha1.ConditionType]v1alpha1.ConditionStatus{"Labelled": "Unknown", "Registered": "Unknown"},
	)
	contract.Report(
		item, declared,
		[]v1alpha1.Condition{
			{Type: "Labelled", Status: "True", Reason: "Done"}, {Type: "Ready", Status: "True", Reason: "Lie"},
		},
		now,
	)
	expect(
		"others do not count",
		map[v1alpha1.ConditionType]v1alpha1.ConditionStatus{"Labelled": "True", "Registered": "Unknown"},
	)
	contract.Report(item, declared, []v1alpha1.Condition{{Type: "Registered", Status: "False", Reason: "Later"}}, now)
	expect(
		"what is not reported again stays",
		map[v1alpha1.ConditionType]v1alpha1.ConditionStatus{"Labelled": "True", "Registered": "False"},
	)
}

func TestSucceedWith(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		reason   string
		reported map[v1alpha1.ConditionType]v1alpha1.ConditionStatus
		want     v1alpha1.ConditionStatus
		message  string
	}{
		"none": {reason: "the job alone counts", want: "True", message: "the job succeeded"},
		"all are true": {
			reason: "the item is ready", reported: map[v1alpha1.ConditionType]v1alpha1.ConditionStatus{"A": "True", "B": "True"},
			want: "True", message: "the job succeeded",
		},
		"one is unknown": {
			reason: "nobody knows", reported: map[v1alpha1.ConditionType]v1alpha1.ConditionStatus{"A": "True", "B": "Unknown"},
			want: "Unknown", message: "B: said Unknown",
		},
		"one is false": {
			reason:   "the item is not ready",
			reported: map[v1alpha1.ConditionType]v1alpha1.ConditionStatus{"A": "False", "B": "Unknown"}, want: "False",
			message: "A: said False",
		},
		"the other is not": {
			reason:   "False is more than Unknown",
			reported: map[v1alpha1.ConditionType]v1alpha1.ConditionStatus{"A": "Unknown", "B": "False"}, want: "False",
			message: "B: said False",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := newItem()
			contract.Begin(item, false, v1alpha1.DeployerInformation{}, now)
			var declared []v1alpha1.ConditionType
			for _, conditionType := range []v1alpha1.ConditionType{"A", "B"} {
				if status, ok := tc.reported[conditionType]; ok {
					declared = append(declared, conditionType)
					contract.Report(
						item, declared,
						[]v1alpha1.Condition{{Type: conditionType, Status: status, Reason: "R", Message: "said " + string(status)}}, now,
					)
				}
			}
			contract.SucceedWith(item, declared, now)
			ready := conditionOf(item, contract.ConditionReady)
			if ready == nil || ready.Status != tc.want || ready.Message != tc.message {
				t.Errorf("%s: unexpected condition: %+v", tc.reason, ready)
			}
			if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || item.Status.JobIDFinished != item.Status.JobID {
				t.Errorf("%s: phase %s", tc.reason, item.Status.Phase)
			}
			if d := contract.Decide(item, now); d.Action != contract.Nothing {
				t.Errorf("%s: there is still something to do: %s", tc.reason, d.Action)
			}
		})
	}
}

func TestHookConditions(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	item := &v1alpha1.DeployItem{}
	if contract.HookAnswered(item, now); len(item.Status.Conditions) != 0 {
		t.Errorf("there is nothing to tell, but found %v", item.Status.Conditions)
	}
	contract.HookFailed(item, contract.Error{Reason: "HTTPHookTimeout", Message: "no answer"}, now)
	if c := conditionOf(item, contract.ConditionHookAnswered); c == nil || c.Status != v1alpha1.ConditionFalse ||
		c.Message != "no answer" {
		t.Errorf("unexpected condition: %v", c)
	}
	contract.HookAnswered(item, now)
	if c := conditionOf(item, contract.ConditionHookAnswered); c.Status != v1alpha1.ConditionTrue {
		t.Errorf("unexpected condition: %v", c)
	}
	if contract.Succeed(item, now); conditionOf(item, contract.ConditionHookAnswered) == nil {
		t.Error("a good answer is not told any more")
	}
	contract.HookFailed(item, contract.Error{Reason: "HTTPHookTimeout", Message: "no answer"}, now)
	if contract.Succeed(item, now); conditionOf(item, contract.ConditionHookAnswered) != nil {
		t.Error("a failure is told beside a success")
	}
	item.Status.Conditions = nil
	if contract.IsFinalized(item, "a") {
		t.Error("nobody was asked")
	}
	contract.NoteFinalized(item, "a", now)
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
