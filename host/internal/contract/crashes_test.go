package contract_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

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

// TestCrashes: the crashes of a plugin count in one job, whatever else becomes of that; the item is poison until a job
// of it succeeds (TestPoisonUntilSuccess); and a crash shows as long as nothing else has happened since.
func TestCrashes(t *testing.T) {
	refused := contract.Error{Operation: "Apply", Message: "refused"}
	retries := func(e contract.Error) modifier {
		return func(i *v1alpha1.DeployItem) { contract.Retry(i, e, noon) }
	}
	crashes := retries(contract.Error{Reason: contract.ReasonPluginCrashed, Message: "the plugin ended"})
	waits := func(i *v1alpha1.DeployItem) { contract.Wait(i, "something", noon) }
	for name, tc := range map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		want   float64
		shows  bool
	}{
		"none":         {"nothing is noted", newItem(underWay), 0, false},
		"a quarter":    {"crashes beside other calls", newItem(underWay, crashed(2.25)), 2.25, false},
		"two":          {"what was noted last counts", newItem(underWay, crashed(1), crashed(2)), 2, false},
		"not begun":    {"the job was not picked up", newItem(crashed(2)), 0, false},
		"finished":     {"nothing is tried again", newItem(underWay, crashed(2), crashes, finished(failed)), 0, false},
		"another job":  {"the count was that of the job before", newItem(underWay, crashed(2), withJob("job-3")), 0, false},
		"now deleted":  {"the deletion begins anew", newItem(underWay, crashed(2), deleted), 0, false},
		"text":         {"not written by Pergola", newItem(underWay, countedAs("2 times")), 0, false},
		"shown":        {"it is the last that has happened", newItem(underWay, crashed(2), crashes), 2, true},
		"not counted":  {"a deployer may use the same word", newItem(underWay, crashes), 0, false},
		"waits since":  {"the plugin has been called since", newItem(underWay, crashed(2), crashes, waits), 2, false},
		"other errors": {"they push none out", newItem(underWay, crashed(2), crashes, retries(refused), others), 2, false},
		"a step": {"it is of the same job", newItem(underWay, crashed(2), func(i *v1alpha1.DeployItem) {
			contract.Step(i, "Step", "half-way", noon)
		}), 2, false},
		"taken over": {"the job goes on there", newItem(underWay, crashed(2), func(i *v1alpha1.DeployItem) {
			contract.TakeOver(i, v1alpha1.DeployerInformation{Identity: "there"}, noon)
		}), 2, false},
		"begun anew": {"another pick-up", newItem(underWay, crashed(2), begun), 0, false},
		"queued":     {"another pick-up", newItem(underWay, crashed(2), queued(0)), 0, false},
		"a new job":  {"its pick-up", newItem(underWay, crashed(2), nextJob, begun), 0, false},
		"a job after the end": {"its pick-up", newItem(underWay, crashed(2), func(i *v1alpha1.DeployItem) {
			contract.Fail(i, false, refused, noon)
		}, nextJob, begun), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, shows := contract.Crashes(tc.item), contract.ShowsCrash(tc.item)
			if got != tc.want || shows != tc.shows {
				t.Errorf("%s: expected %g, %t, but found %g, %t", tc.reason, tc.want, tc.shows, got, shows)
			}
		})
	}
}

// others are more errors than the list of the last ones holds.
func others(item *v1alpha1.DeployItem) {
	for _, message := range []string{"a", "b", "c", "d", "e", "f"} {
		contract.Retry(item, contract.Error{Reason: "Refused", Message: message}, noon)
	}
}

func nextJob(item *v1alpha1.DeployItem) { contract.SetJob(item, "job-3", noon) }

// TestPoisonUntilSuccess: an item during whose call a plugin has crashed is poison, also in its next jobs, until one
// succeeds.
// Rule (SECURITY.md#authors-of-items): An item stays apart after a crash in one of its calls until a job of it
// succeeds.
func TestPoisonUntilSuccess(t *testing.T) {
	fails := func(i *v1alpha1.DeployItem) { contract.Fail(i, false, contract.Error{Message: "no"}, noon) }
	succeeds := func(i *v1alpha1.DeployItem) { contract.Succeed(i, noon) }
	isAborted := func(i *v1alpha1.DeployItem) { contract.EndAborted(i, false, deployer, noon) }
	noted := func(i *v1alpha1.DeployItem) { contract.FinishConditions(i, noon) }
	for name, tc := range map[string]struct {
		item *v1alpha1.DeployItem
		want bool
	}{
		"never":               {newItem(underWay), false},
		"crashed":             {newItem(underWay, crashed(1)), true},
		"succeeded":           {newItem(underWay, crashed(1), succeeds), false},
		"next job":            {newItem(underWay, crashed(2), fails, nextJob, begun), true},
		"the one after that":  {newItem(underWay, crashed(2), fails, nextJob, begun, fails, nextJob, begun), true},
		"aborted":             {newItem(underWay, crashed(1), isAborted), true},
		"failed elsewhere":    {newItem(underWay, crashed(1), finished(failed), noted), true},
		"succeeded elsewhere": {newItem(underWay, crashed(1), finished(succeeded), noted), false},
	} {
		if got := contract.IsPoison(tc.item); got != tc.want {
			t.Errorf("%s: expected %t, but found %t", name, tc.want, got)
		}
	}
}

// TestAnyCountIsSafe: whatever somebody writes in place of the count, it is none or one that can be counted on.
// Rule (SECURITY.md#authors-of-items): Writes of other clients to the host's fields do no harm.
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
