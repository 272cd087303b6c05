package contract_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var underWay = pickedUp(0, v1alpha1.DeployItemPhaseProgressing)

// crashed is an item in the calls of whose job the plugin has died so often.
func crashed(times float64) modifier {
	return func(item *v1alpha1.DeployItem) { contract.NoteCrashes(item, times, noon) }
}

// countedAs is an item with a condition that counts crashes in these words.
func countedAs(message string) modifier {
	return func(item *v1alpha1.DeployItem) {
		item.Status.Conditions = append(item.Status.Conditions,
			newCondition(contract.ConditionPluginCrashes, v1alpha1.ConditionTrue, contract.ReasonPluginCrashed, message, 0))
	}
}

func TestCrashes(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		want   float64
	}{
		"none":      {"nothing is noted", newItem(underWay), 0},
		"a quarter": {"crashes beside other calls", newItem(underWay, crashed(2.25)), 2.25},
		"two":       {"what was noted last counts", newItem(underWay, crashed(1), crashed(2)), 2},
		"not begun": {"the job was not picked up", newItem(crashed(2)), 0},
		"finished":  {"no job is under way", newItem(underWay, crashed(2), finished(v1alpha1.DeployItemPhaseFailed)), 0},
		"another job": {
			"the count was that of the job before",
			newItem(underWay, crashed(2), func(i *v1alpha1.DeployItem) { i.Status.JobID = "job-3" }), 0,
		},
		"now deleted": {"the deletion begins anew", newItem(underWay, crashed(2), deleted), 0},
		"text":        {"not written by Pergola", newItem(underWay, countedAs("2 times")), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := contract.Crashes(tc.item); got != tc.want {
				t.Errorf("%s: expected %g, but found %g", tc.reason, tc.want, got)
			}
		})
	}
}

// TestCrashesAreThoseOfOneJob: whatever happens to a job leaves the count alone, and its end or a new pick-up ends it.
func TestCrashesAreThoseOfOneJob(t *testing.T) {
	e := contract.Error{Operation: "Apply", Message: "refused"}
	for name, tc := range map[string]struct {
		change modifier
		want   float64
	}{
		"TakeOver": {func(i *v1alpha1.DeployItem) {
			contract.TakeOver(i, v1alpha1.DeployerInformation{Identity: "there"}, noon)
		}, 2},
		"Wait":  {func(i *v1alpha1.DeployItem) { contract.Wait(i, "something", noon) }, 2},
		"Step":  {func(i *v1alpha1.DeployItem) { contract.Step(i, "Step", "half-way", noon) }, 2},
		"Retry": {func(i *v1alpha1.DeployItem) { contract.Retry(i, e, noon) }, 2},
		"other errors": {func(i *v1alpha1.DeployItem) {
			for _, message := range []string{"a", "b", "c", "d", "e", "f"} {
				contract.Retry(i, contract.Error{Message: message}, noon)
			}
		}, 2},
		"Begin":   {func(i *v1alpha1.DeployItem) { contract.Begin(i, false, deployer, noon) }, 0},
		"Enqueue": {func(i *v1alpha1.DeployItem) { contract.Enqueue("a free worker")(i, false, deployer, noon) }, 0},
		"a new job": {func(i *v1alpha1.DeployItem) {
			contract.SetJob(i, "job-3", noon)
			contract.Begin(i, false, deployer, noon)
		}, 0},
		"a job after the end": {func(i *v1alpha1.DeployItem) {
			contract.Fail(i, false, e, noon)
			contract.SetJob(i, "job-3", noon)
			contract.Begin(i, false, deployer, noon)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			item := newItem(underWay, crashed(2))
			tc.change(item)
			if got := contract.Crashes(item); got != tc.want {
				t.Errorf("expected %g crashes, but found %g", tc.want, got)
			}
		})
	}
}

// TestPoisonUntilSuccess: an item during whose call a plugin has crashed is poison, also in its next jobs, until one
// succeeds.
func TestPoisonUntilSuccess(t *testing.T) {
	ended := func(phase v1alpha1.DeployItemPhase) modifier {
		return func(i *v1alpha1.DeployItem) {
			finished(phase)(i)
			contract.FinishConditions(i, noon)
		}
	}
	next := func(i *v1alpha1.DeployItem) {
		contract.Fail(i, false, contract.Error{Message: "no"}, noon)
		contract.SetJob(i, "job-3", noon)
		contract.Begin(i, false, deployer, noon)
	}
	succeeds := func(i *v1alpha1.DeployItem) { contract.Succeed(i, noon) }
	isAborted := func(i *v1alpha1.DeployItem) { contract.EndAborted(i, false, deployer, noon) }
	for name, tc := range map[string]struct {
		modifiers []modifier
		want      bool
	}{
		"never":                         {nil, false},
		"crashed":                       {[]modifier{crashed(1)}, true},
		"succeeded":                     {[]modifier{crashed(1), succeeds}, false},
		"next job":                      {[]modifier{crashed(2), next}, true},
		"the one after that":            {[]modifier{crashed(2), next, next}, true},
		"aborted":                       {[]modifier{crashed(1), isAborted}, true},
		"failed by somebody else":       {[]modifier{crashed(1), ended(v1alpha1.DeployItemPhaseFailed)}, true},
		"succeeded, says somebody else": {[]modifier{crashed(1), ended(v1alpha1.DeployItemPhaseSucceeded)}, false},
	} {
		if got := contract.IsPoison(newItem(append([]modifier{underWay}, tc.modifiers...)...)); got != tc.want {
			t.Errorf("%s: expected %t, but found %t", name, tc.want, got)
		}
	}
}

func TestShowsCrash(t *testing.T) {
	e := contract.Error{Reason: contract.ReasonPluginCrashed, Message: "the plugin ended"}
	retries := func(e contract.Error) modifier {
		return func(i *v1alpha1.DeployItem) { contract.Retry(i, e, noon) }
	}
	waits := func(i *v1alpha1.DeployItem) { contract.Wait(i, "something", noon) }
	for name, tc := range map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		want   bool
	}{
		"crash":       {"it is the last that has happened", newItem(underWay, crashed(1), retries(e)), true},
		"waits since": {"the plugin has been called since", newItem(underWay, crashed(1), retries(e), waits), false},
		"another error": {
			"another error has come since",
			newItem(underWay, crashed(1), retries(e), retries(contract.Error{Message: "refused"})), false,
		},
		"not counted": {"a deployer may use the same word", newItem(underWay, retries(e)), false},
		"finished": {
			"nothing is tried again", newItem(underWay, crashed(1), retries(e), finished(v1alpha1.DeployItemPhaseFailed)), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := contract.ShowsCrash(tc.item); got != tc.want {
				t.Errorf("%s: expected %t, but found %t", tc.reason, tc.want, got)
			}
		})
	}
}

// TestAnyCountIsSafe: whatever somebody writes in place of the count, it is none or one that can be counted on.
func TestAnyCountIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		message := rapid.OneOf(rapid.String(), rapid.StringMatching(`[+-]?[0-9_.]{1,25}`)).Draw(t, "message")
		item := newItem(underWay, countedAs(message))
		before := contract.Crashes(item)
		if before < 0 {
			t.Fatalf("%q counts as %g", message, before)
		}
		if before < 1<<16-1 {
			contract.NoteCrashes(item, before+0.25, noon.Add(time.Minute))
			if after := contract.Crashes(item); after != before+0.25 {
				t.Fatalf("one more than %g is %g", before, after)
			}
		}
	})
}
