package contract_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func do(a contract.Action) contract.Decision { return contract.Decision{Action: a} }

func deletion(a contract.Action) contract.Decision {
	return contract.Decision{Action: a, Deletion: true}
}

// decideCase is an item and the decision about it at noon.
type decideCase struct {
	rule string
	item *v1alpha1.DeployItem
	want contract.Decision
}

func checkDecisions(t *testing.T, cases []decideCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.rule, func(t *testing.T) {
			failWith(t, tc.rule, cmp.Diff(tc.want, contract.Decide(tc.item, noon)))
		})
	}
}

func TestDecide(t *testing.T) {
	without := func(forget func(*v1alpha1.DeployItemStatus)) modifier {
		return func(i *v1alpha1.DeployItem) { forget(&i.Status) }
	}
	noTimes := without(func(s *v1alpha1.DeployItemStatus) { s.TransitionTimes = nil })
	noConditions := without(func(s *v1alpha1.DeployItemStatus) { s.Conditions = nil })
	noTimeOfJob := without(func(s *v1alpha1.DeployItemStatus) { s.JobIDGenerationTime = nil })
	checkDecisions(t, []decideCase{
		// Rule (deploy-items.md#jobs): An item that never had a job is left alone.
		{"never a job", &v1alpha1.DeployItem{}, do(contract.Nothing)},
		// Rule (deploy-items.md#jobs): An item whose `jobID` equals its `jobIDFinished` is left alone.
		{"finished", newItem(finished(succeeded)), do(contract.Nothing)},
		// Rule (deploy-items.md#deleting): A deletion waits for its job.
		{"finished, then deleted", newItem(finished(succeeded), deleted), deletion(contract.Nothing)},
		// Landscaper ends a job by setting jobIDFinished, whatever its phase was.
		{"interrupted", newItem(underWay, finished(progressing)), do(contract.Nothing)},
		{"interrupted, but conditions show a running job", newItem(begun, finished(failed)), do(contract.EndedElsewhere)},
		{"pick-up timeout after a success, which still shows as ready",
			newItem(skipped, withJob("job-3"), finished(failed)), do(contract.EndedElsewhere)},
		// A Landscaper whose execution still runs sets its job again: the phase must be final.
		{"replaced by a finished job", newItem(pickedUp(0, deleting), deleted, withJob("job-1")), deletion(contract.Repair)},
		{"never picked up here, failed elsewhere", newItem(finished(failed)), do(contract.Nothing)},

		// Rule (deploy-items.md#jobs): The job of an item with an empty phase is picked up.
		{"first job", newItem(), do(contract.PickUp)},
		// Rule (deploy-items.md#jobs): A job after phase `Succeeded` is picked up.
		{"job after success", newItem(inPhase(succeeded)), do(contract.PickUp)},
		// Rule (deploy-items.md#jobs): A job after phase `Failed` is picked up.
		{"job after failure", newItem(inPhase(failed)), do(contract.PickUp)},
		// Rule (deploy-items.md#deleting): A job of an item with a deletion timestamp deletes.
		{"deletion", newItem(inPhase(succeeded), deleted), deletion(contract.PickUp)},
		{"picked up", newItem(pickedUp(0, initial)), do(contract.Continue)},
		{"under way", newItem(underWay), do(contract.Continue)},
		// No phase of the host, but one of a job under way.
		{"completing", newItem(pickedUp(0, completing)), do(contract.Continue)},
		{"deletion picked up", newItem(pickedUp(0, initDelete), deleted), deletion(contract.Continue)},
		{"deletion under way", newItem(pickedUp(0, deleting), deleted), deletion(contract.Continue)},

		{"deleted in the middle: the job begins anew", newItem(underWay, deleted), deletion(contract.PickUp)},
		// Landscaper resets the transition times of a job that replaces one half-way.
		// Rule (deploy-items.md#jobs): A new job in place of a running one begins from the start.
		{"new job with times reset", newItem(inPhase(progressing)), do(contract.PickUp)},
		{"new job without transition times", newItem(inPhase(progressing), noTimes), do(contract.PickUp)},
		{"new job with times as they were", newItem(underWay, jobSet(time.Second)), do(contract.PickUp)},
		// Times have whole seconds: most jobs are set and picked up within one.
		{"picked up in the second of its setting", newItem(underWay, jobSet(0)), do(contract.Continue)},
		// Rule (deploy-items.md#jobs): A new job while another one is `Progressing` begins from the start, and ends.
		{"new job and nothing else", newItem(underWay, withJob("job-3")), do(contract.PickUp)},
		{"new job in the middle of a deletion",
			newItem(pickedUp(0, deleting), deleted, withJob("job-3")), deletion(contract.PickUp)},
		{"left half-way by another deployer, of whatever job", newItem(underWay, noConditions), do(contract.PickUp)},
		{"job set by hand, without a time", newItem(underWay, noTimeOfJob), do(contract.Continue)},

		{"unchanged", newItem(inPhase(succeeded), onChangeOnly(3)), do(contract.SucceedUnchanged)},
		{"changed", newItem(inPhase(succeeded), onChangeOnly(2)), do(contract.PickUp)},
		{"unchanged, failed before", newItem(inPhase(failed), onChangeOnly(3)), do(contract.PickUp)},
		{"unchanged, but the first job", newItem(onChangeOnly(3)), do(contract.PickUp)},
		{"unchanged, deleted", newItem(inPhase(succeeded), onChangeOnly(3), deleted), deletion(contract.PickUp)},

		{"queued: picked up once more at its turn", newItem(queued(0)), do(contract.PickUp)},
		{"queued deletion", newItem(deleted, queued(0)), deletion(contract.PickUp)},
		{"time does not run in the queue", newItem(queued(-1000*time.Hour), timeout("1s")), do(contract.PickUp)},
		{"aborted in the queue, where its deployer knows nothing of it",
			newItem(queued(0), accepts(v1alpha1.OperationAbort)), do(contract.GiveUp)},
	})
}

func TestDecideInTime(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		after  time.Duration
		want   contract.Decision
	}{
		"a moment before the default timeout": {"ten minutes, if the item does not say",
			newItem(underWay), contract.DefaultTimeout - 400*time.Millisecond, do(contract.Continue)},
		// Rule (deploy-items.md#jobs): A job takes ten minutes at most, unless the item says otherwise.
		"default timeout": {"ten minutes, if the item does not say",
			newItem(underWay), contract.DefaultTimeout + time.Second, do(contract.TimedOut)},
		"timeout of a deletion": {"a deletion has the same timeout",
			newItem(pickedUp(0, deleting), deleted, timeout("1m")), time.Minute + time.Second, deletion(contract.TimedOut)},
		"not picked up for an hour": {"the timeout counts from the pick-up, not from the setting of the job",
			newItem(), time.Hour, do(contract.PickUp)},
		// Rule (deploy-items.md#jobs): `timeout: none` is no timeout.
		"timeout none": {"none really is none", newItem(underWay, timeout("none")), 1000 * time.Hour, do(contract.Continue)},
		"timeout zero": {"zero is how Landscaper writes none in Go",
			newItem(underWay, timeout("0s")), 1000 * time.Hour, do(contract.Continue)},
		"malformed timeout": {"the job is picked up and goes on, to fail with what is wrong",
			newItem(underWay, timeout("soon")), 1000 * time.Hour, do(contract.Continue)},
		"abort accepted, timed out": {"an abort has its own time",
			newItem(underWay, accepts(v1alpha1.OperationAbort), timeout("1s")), 30 * time.Second, do(contract.Abort)},
		"abort takes too long": {"an aborted job ends",
			newItem(underWay, accepts(v1alpha1.OperationAbort), timeout("none")), 62 * time.Second, do(contract.GiveUp)},
	} {
		t.Run(name, func(t *testing.T) {
			failWith(t, tc.reason, cmp.Diff(tc.want, contract.Decide(tc.item, noon.Add(tc.after))))
		})
	}
}

func TestDeadline(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		want   time.Time
		wrong  bool
	}{
		"default": {"ten minutes from the pick-up on, and the part of its second that is cut off",
			newItem(underWay), at(10*time.Minute + time.Second).Time, false},
		"timeout": {"what the item says",
			newItem(underWay, timeout("1h30m")), at(90*time.Minute + time.Second).Time, false},
		"of the plugin": {"what was noted at the pick-up",
			newItem(underWay, limited(time.Hour)), at(time.Hour + time.Second).Time, false},
		"of the item": {"the item is asked first",
			newItem(underWay, limited(time.Hour), timeout("5m")), at(5*time.Minute + time.Second).Time, false},
		"usual again": {"the note of the last job is gone",
			newItem(underWay, limited(time.Hour), limited(contract.DefaultTimeout)),
			at(10*time.Minute + time.Second).Time, false},
		"no note": {"the condition of another version", newItem(underWay, limited(time.Hour), func(i *v1alpha1.DeployItem) {
			i.Status.Conditions[len(i.Status.Conditions)-1].Message = "-1h"
		}), at(10*time.Minute + time.Second).Time, false},
		"none":          {reason: "zero for none", item: newItem(underWay, timeout("none"))},
		"not picked up": {reason: "no deadline before the pick-up", item: newItem()},
		"queued":        {reason: "the time of a job does not run in the queue", item: newItem(queued(0))},
		"aborted": {"an abort has its own time",
			newItem(underWay, timeout("none"), accepts(v1alpha1.OperationAbort)), at(time.Minute + time.Second).Time, false},
		"no times":    {reason: "no deadline before the pick-up", item: &v1alpha1.DeployItem{}},
		"no duration": {reason: "an error before anything else", item: newItem(timeout("soon")), wrong: true},
		"negative": {reason: "a negative timeout is none that anybody means",
			item: newItem(underWay, timeout("-1s")), wrong: true},
		"beyond a int64": {reason: "the schema's pattern lets it pass",
			item: newItem(underWay, timeout("99999999999999h")), wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := contract.Deadline(tc.item)
			if tc.wrong {
				var e contract.Error
				if !errors.As(err, &e) || !e.Final() || !strings.HasPrefix(e.Message, "spec.timeout: ") ||
					!strings.Contains(e.Message, string(tc.item.Spec.Timeout)) {
					t.Errorf(
						"%s: expected a final contract.Error that names spec.timeout and what was found, but found %v", tc.reason, err,
					)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			failWith(t, tc.reason, cmp.Diff(tc.want, got))
		})
	}
}

func TestNewer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b string
		want bool
	}{
		"newer":                {"10", "9", true},
		"the same":             {"9", "9", false},
		"older":                {"9", "10", false},
		"cannot be compared":   {"x", "9", true},
		"nothing is known yet": {"9", "", true},
	} {
		if got := contract.Newer(c.a, c.b); got != c.want {
			t.Errorf("%s: expected %t, but found %t", name, c.want, got)
		}
	}
}
