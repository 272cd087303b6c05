package contract_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func drifted(message string) sdk.Condition {
	return sdk.Condition{Type: "Drifted", Status: v1alpha1.ConditionTrue, Reason: "Repaired", Message: message}
}

// Each condition that the host sets is its own: no deployer can report it.
func TestOwnConditionsAreTheHosts(t *testing.T) {
	t.Parallel()
	for _, own := range []v1alpha1.ConditionType{
		contract.ConditionReady, contract.ConditionReconciling, contract.ConditionStalled, contract.ConditionPickedUp,
		contract.ConditionStarted, contract.ConditionPluginCrashes, contract.ConditionServed,
		contract.ConditionHookAnswered, contract.ConditionFinalized,
	} {
		c := drifted("")
		if c.Type = own; sdk.CheckConditions([]sdk.Condition{c}) == nil {
			t.Errorf("a deployer can report %s", own)
		}
	}
}

func TestSetReported(t *testing.T) {
	t.Parallel()
	item := newItem(pickedUp(time.Second, progressing))
	others := newCondition("Labelled", v1alpha1.ConditionFalse, "NotReported", "somebody else's", time.Second)
	item.Status.Conditions = append(item.Status.Conditions, others)
	want := slices.Clone(item.Status.Conditions)

	report := func(reason string, after time.Duration, reported ...sdk.Condition) {
		t.Helper()
		contract.SetReported(item, reported, noon.Add(after))
		failWith(t, reason, cmp.Diff(want, item.Status.Conditions))
	}

	want = append(want, newCondition("Drifted", isTrue, "Repaired", "spec.replicas", time.Minute))
	report("a new one is added, and others stay", time.Minute, drifted("spec.replicas"))
	report("the same again changes nothing", time.Hour, drifted("spec.replicas"))
	report("one that is not reported stays", time.Hour)
	want[2].Message, want[2].LastUpdateTime = "data", *at(2 * time.Minute)
	report("another message is an update", 2*time.Minute, drifted("data"))
	want[2] = newCondition("Drifted", isFalse, "AsDeployed", "", 3*time.Minute)
	report("another status is a transition", 3*time.Minute, sdk.Condition{
		Type: "Drifted", Status: isFalse, Reason: "AsDeployed",
	})
}

// What a deployer has reported outlasts everything that becomes of jobs.
func TestReportedConditionsStay(t *testing.T) {
	t.Parallel()
	e := contract.Error{Operation: "Apply", Reason: "Refused", Message: "no"}
	item := newItem()
	contract.SetReported(item, []sdk.Condition{drifted("spec.replicas")}, noon)
	want := *conditionOf(item, "Drifted")
	now := noon.Add(time.Minute)
	contract.SetJob(item, "next", now)
	contract.Enqueue("a free worker")(item, false, deployer, now)
	contract.Begin(item, false, deployer, now)
	contract.TakeOver(item, deployer, now)
	contract.Step(item, "Apply", "it", now)
	contract.Wait(item, "a pod", now)
	contract.NoteCrashes(item, 1, now)
	contract.Retry(item, e, now)
	contract.Fail(item, false, e, now)
	contract.FinishConditions(item, now)
	contract.FinishUnchanged(item, deployer, now)
	contract.Begin(item, true, deployer, now)
	contract.EndReplaced(item, true, now)
	contract.Succeed(item, now)
	if c := conditionOf(item, "Drifted"); c == nil || !cmp.Equal(want, *c) {
		t.Errorf("expected %+v, but found %+v", want, c)
	}
}
