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
	reason string
	item   *v1alpha1.DeployItem
	want   contract.Decision
}

func checkDecisions(t *testing.T, cases map[string]decideCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			failWith(t, tc.reason, cmp.Diff(tc.want, contract.Decide(tc.item, noon)))
		})
	}
}

func TestDecide(t *testing.T) {
	checkDecisions(t, map[string]decideCase{
		"never a job": {"an item that nobody has set a job for has nothing to do",
			&v1alpha1.DeployItem{}, do(contract.Nothing)},
		"finished": {"a finished job is no job", newItem(finished(succeeded)), do(contract.Nothing)},
		"finished, then deleted": {"a deletion waits for its job, too",
			newItem(finished(succeeded), deleted), deletion(contract.Nothing)},
		"interrupted": {"Landscaper ends a job by setting jobIDFinished, whatever its phase was",
			newItem(underWay, finished(progressing)), do(contract.Nothing)},
		"interrupted, with conditions": {"conditions that say the job is under way are not true any more",
			newItem(begun, finished(failed)), do(contract.EndedElsewhere)},
		"pick-up timeout after a success": {"the item is not ready any more",
			newItem(skipped, withJob("job-3"), finished(failed)), do(contract.EndedElsewhere)},
		"job of ours taken": {
			"a Landscaper whose execution still runs sets its job again, which is finished: the phase must be final",
			newItem(pickedUp(0, deleting), deleted, withJob("job-1")), deletion(contract.Repair),
		},
		"failed by another deployer": {"what was never picked up here has no conditions of ours",
			newItem(finished(failed)), do(contract.Nothing)},
		"first job": {"the empty phase is that of an item whose first job nobody has picked up",
			newItem(), do(contract.PickUp)},
		"job after success": {"a final phase is that of the job before", newItem(inPhase(succeeded)), do(contract.PickUp)},
		"job after failure": {"a final phase is that of the job before", newItem(inPhase(failed)), do(contract.PickUp)},
		"deletion": {"a job of a deleted item deletes",
			newItem(inPhase(succeeded), deleted), deletion(contract.PickUp)},
		"picked up": {"a job that was picked up goes on", newItem(pickedUp(0, initial)), do(contract.Continue)},
		"under way": {"a job under way goes on", newItem(underWay), do(contract.Continue)},
		"completing": {"no phase of ours, but one of a job under way",
			newItem(pickedUp(0, completing)), do(contract.Continue)},
		"deletion picked up": {"a deletion that was picked up goes on",
			newItem(pickedUp(0, initDelete), deleted), deletion(contract.Continue)},
		"deletion under way": {"a deletion under way goes on",
			newItem(pickedUp(0, deleting), deleted), deletion(contract.Continue)},
		"deleted in the middle": {"a job that was picked up before the deletion begins anew as one that deletes",
			newItem(underWay, deleted), deletion(contract.PickUp)},
		"new job with times reset": {"a job that replaces one half-way begins anew: Landscaper resets the transition times",
			newItem(inPhase(progressing)), do(contract.PickUp)},
		"new job without transition times": {"an item may have no transition times at all",
			newItem(inPhase(progressing), func(i *v1alpha1.DeployItem) { i.Status.TransitionTimes = nil }), do(contract.PickUp)},
		"new job with times as they were": {"who sets a job without resetting the times is told by the time of the job",
			newItem(underWay, jobSet(time.Second)), do(contract.PickUp)},
		"picked up in the second of its setting": {"times have whole seconds: most jobs are set and picked up within one",
			newItem(underWay, jobSet(0)), do(contract.Continue)},
		"new job and nothing else": {"whoever sets nothing but a job in the middle of another one gets a new beginning, too",
			newItem(underWay, withJob("job-3")), do(contract.PickUp)},
		"new job in the middle of a deletion": {"a deletion begins anew with a new job",
			newItem(pickedUp(0, deleting), deleted, withJob("job-3")), deletion(contract.PickUp)},
		"left half-way by another deployer": {"nobody knows which job another deployer has picked up",
			newItem(underWay, func(i *v1alpha1.DeployItem) { i.Status.Conditions = nil }), do(contract.PickUp)},
		"job without a time": {"who sets a job by hand writes no time",
			newItem(underWay, func(i *v1alpha1.DeployItem) { i.Status.JobIDGenerationTime = nil }), do(contract.Continue)},
		"unchanged": {"updateOnChangeOnly wants no job without a change",
			newItem(inPhase(succeeded), onChangeOnly(3)), do(contract.SucceedUnchanged)},
		"changed": {"a change needs its job", newItem(inPhase(succeeded), onChangeOnly(2)), do(contract.PickUp)},
		"unchanged, fails": {"what has failed is tried again",
			newItem(inPhase(failed), onChangeOnly(3)), do(contract.PickUp)},
		"unchanged, new": {"a first job is never skipped", newItem(onChangeOnly(3)), do(contract.PickUp)},
		"unchanged, deleted": {"a deletion is never skipped",
			newItem(inPhase(succeeded), onChangeOnly(3), deleted), deletion(contract.PickUp)},
		"queued, waits": {"a queued job is picked up once more when its turn comes",
			newItem(queued(0)), do(contract.PickUp)},
		"queued, deletion": {"deletions queue, too", newItem(deleted, queued(0)), deletion(contract.PickUp)},
		"queued, long": {"the time of a job does not run in the queue",
			newItem(queued(-1000*time.Hour), timeout("1s")), do(contract.PickUp)},
		"queued, aborted": {"its deployer knows nothing of it",
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
		"default timeout": {"ten minutes, if the item does not say",
			newItem(underWay), contract.DefaultTimeout, do(contract.TimedOut)},
		"timeout of a deletion": {"a deletion has the same timeout",
			newItem(pickedUp(0, deleting), deleted, timeout("1m")), time.Minute, deletion(contract.TimedOut)},
		"not picked up for an hour": {"the timeout counts from the pick-up, not from the setting of the job",
			newItem(), time.Hour, do(contract.PickUp)},
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
		"default":       {"ten minutes from the pick-up on", newItem(underWay), at(10 * time.Minute).Time, false},
		"timeout":       {"what the item says", newItem(underWay, timeout("1h30m")), at(90 * time.Minute).Time, false},
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
