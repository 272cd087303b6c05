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

func TestDecide(t *testing.T) {
	const (
		initial     = v1alpha1.DeployItemPhaseInit
		progressing = v1alpha1.DeployItemPhaseProgressing
		completing  = v1alpha1.DeployItemPhaseCompleting
		succeeded   = v1alpha1.DeployItemPhaseSucceeded
		failed      = v1alpha1.DeployItemPhaseFailed
		initDelete  = v1alpha1.DeployItemPhaseInitDelete
		deleting    = v1alpha1.DeployItemPhaseDeleting
	)
	cases := map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		after  time.Duration
		want   contract.Decision
	}{
		"never a job": {
			reason: "an item that nobody has set a job for has nothing to do",
			item:   &v1alpha1.DeployItem{},
			want:   contract.Decision{Action: contract.Nothing},
		},
		"finished": {
			reason: "a finished job is no job",
			item:   newItem(finished(succeeded)),
			want:   contract.Decision{Action: contract.Nothing},
		},
		"finished, then deleted": {
			reason: "a deletion waits for its job, too",
			item:   newItem(finished(succeeded), deleted),
			want:   contract.Decision{Action: contract.Nothing, Deletion: true},
		},
		"interrupted": {
			reason: "Landscaper ends a job by setting jobIDFinished, whatever its phase was",
			item:   newItem(pickedUp(0, progressing), finished(progressing)),
			want:   contract.Decision{Action: contract.Nothing},
		},
		"interrupted, with conditions": {
			reason: "conditions that say the job is under way are not true any more",
			item:   newItem(func(i *v1alpha1.DeployItem) { contract.Begin(i, false, deployer, noon) }, finished(failed)),
			want:   contract.Decision{Action: contract.EndedElsewhere},
		},
		"pick-up timeout after a success": {
			reason: "the item is not ready any more",
			item: newItem(
				func(i *v1alpha1.DeployItem) { contract.FinishUnchanged(i, deployer, noon) },
				func(i *v1alpha1.DeployItem) { i.Status.JobID = "job-3" }, finished(failed),
			),
			want: contract.Decision{Action: contract.EndedElsewhere},
		},
		"job of ours taken": {
			reason: "a Landscaper whose execution still runs sets its job again, which is finished: the phase must be final",
			item:   newItem(pickedUp(0, deleting), deleted, func(i *v1alpha1.DeployItem) { i.Status.JobID = "job-1" }),
			want:   contract.Decision{Action: contract.Repair, Deletion: true},
		},
		"failed by another deployer": {
			reason: "what was never picked up here has no conditions of ours",
			item:   newItem(finished(failed)),
			want:   contract.Decision{Action: contract.Nothing},
		},
		"first job": {
			reason: "the empty phase is that of an item whose first job nobody has picked up",
			item:   newItem(),
			want:   contract.Decision{Action: contract.PickUp},
		},
		"job after success": {
			reason: "a final phase is that of the job before", item: newItem(inPhase(succeeded)),
			want: contract.Decision{Action: contract.PickUp},
		},
		"job after failure": {
			reason: "a final phase is that of the job before", item: newItem(inPhase(failed)),
			want: contract.Decision{Action: contract.PickUp},
		},
		"deletion": {
			reason: "a job of a deleted item deletes", item: newItem(inPhase(succeeded), deleted),
			want: contract.Decision{Action: contract.PickUp, Deletion: true},
		},
		"picked up": {
			reason: "a job that was picked up goes on", item: newItem(pickedUp(0, initial)),
			want: contract.Decision{Action: contract.Continue},
		},
		"under way": {
			reason: "a job under way goes on", item: newItem(pickedUp(0, progressing)),
			want: contract.Decision{Action: contract.Continue},
		},
		"completing": {
			reason: "no phase of ours, but one of a job under way", item: newItem(pickedUp(0, completing)),
			want: contract.Decision{Action: contract.Continue},
		},
		"deletion picked up": {
			reason: "a deletion that was picked up goes on", item: newItem(pickedUp(0, initDelete), deleted),
			want: contract.Decision{Action: contract.Continue, Deletion: true},
		},
		"deletion under way": {
			reason: "a deletion under way goes on", item: newItem(pickedUp(0, deleting), deleted),
			want: contract.Decision{Action: contract.Continue, Deletion: true},
		},
		"deleted in the middle": {
			reason: "a job that was picked up before the deletion begins anew as one that deletes",
			item:   newItem(pickedUp(0, progressing), deleted),
			want:   contract.Decision{Action: contract.PickUp, Deletion: true},
		},
		"new job with times reset": {
			reason: "a job that replaces one half-way begins anew: Landscaper resets the transition times",
			item:   newItem(inPhase(progressing)),
			want:   contract.Decision{Action: contract.PickUp},
		},
		"new job without transition times": {
			reason: "an item may have no transition times at all",
			item:   newItem(inPhase(progressing), func(i *v1alpha1.DeployItem) { i.Status.TransitionTimes = nil }),
			want:   contract.Decision{Action: contract.PickUp},
		},
		"new job with times as they were": {
			reason: "who sets a job without resetting the times is told by the time of the job",
			item:   newItem(pickedUp(0, progressing), jobSet(time.Second)),
			want:   contract.Decision{Action: contract.PickUp},
		},
		"picked up in the second of its setting": {
			reason: "times have whole seconds: most jobs are set and picked up within one",
			item:   newItem(pickedUp(0, progressing), jobSet(0)),
			want:   contract.Decision{Action: contract.Continue},
		},
		"new job and nothing else": {
			reason: "whoever sets nothing but a job in the middle of another one gets a new beginning, too",
			item:   newItem(pickedUp(0, progressing), func(i *v1alpha1.DeployItem) { i.Status.JobID = "job-3" }),
			want:   contract.Decision{Action: contract.PickUp},
		},
		"new job in the middle of a deletion": {
			reason: "a deletion begins anew with a new job",
			item:   newItem(pickedUp(0, deleting), deleted, func(i *v1alpha1.DeployItem) { i.Status.JobID = "job-3" }),
			want:   contract.Decision{Action: contract.PickUp, Deletion: true},
		},
		"left half-way by another deployer": {
			reason: "nobody knows which job another deployer has picked up",
			item:   newItem(pickedUp(0, progressing), func(i *v1alpha1.DeployItem) { i.Status.Conditions = nil }),
			want:   contract.Decision{Action: contract.PickUp},
		},
		"job without a time": {
			reason: "who sets a job by hand writes no time",
			item:   newItem(pickedUp(0, progressing), func(i *v1alpha1.DeployItem) { i.Status.JobIDGenerationTime = nil }),
			want:   contract.Decision{Action: contract.Continue},
		},
		"unchanged": {
			reason: "updateOnChangeOnly wants no job without a change",
			item:   newItem(inPhase(succeeded), onChangeOnly(3)),
			want:   contract.Decision{Action: contract.SucceedUnchanged},
		},
		"changed": {
			reason: "a change needs its job", item: newItem(inPhase(succeeded), onChangeOnly(2)),
			want: contract.Decision{Action: contract.PickUp},
		},
		"unchanged, fails": {
			reason: "what has failed is tried again", item: newItem(inPhase(failed), onChangeOnly(3)),
			want: contract.Decision{Action: contract.PickUp},
		},
		"unchanged, new": {
			reason: "a first job is never skipped", item: newItem(onChangeOnly(3)),
			want: contract.Decision{Action: contract.PickUp},
		},
		"unchanged, deleted": {
			reason: "a deletion is never skipped",
			item:   newItem(inPhase(succeeded), onChangeOnly(3), deleted),
			want:   contract.Decision{Action: contract.PickUp, Deletion: true},
		},
		"a moment before the default timeout": {
			reason: "ten minutes, if the item does not say",
			item:   newItem(pickedUp(0, progressing)), after: contract.DefaultTimeout - 400*time.Millisecond,
			want: contract.Decision{Action: contract.Continue},
		},
		"default timeout": {
			reason: "ten minutes, if the item does not say",
			item:   newItem(pickedUp(0, progressing)), after: contract.DefaultTimeout,
			want: contract.Decision{Action: contract.TimedOut},
		},
		"timeout of a deletion": {
			reason: "a deletion has the same timeout",
			item:   newItem(pickedUp(0, deleting), deleted, timeout("1m")), after: time.Minute,
			want: contract.Decision{Action: contract.TimedOut, Deletion: true},
		},
		"not picked up for an hour": {
			reason: "the timeout counts from the pick-up, not from the setting of the job",
			item:   newItem(), after: time.Hour,
			want: contract.Decision{Action: contract.PickUp},
		},
		"timeout none": {
			reason: "none really is none",
			item:   newItem(pickedUp(0, progressing), timeout("none")), after: 1000 * time.Hour,
			want: contract.Decision{Action: contract.Continue},
		},
		"timeout zero": {
			reason: "zero is how Landscaper writes none in Go",
			item:   newItem(pickedUp(0, progressing), timeout("0s")), after: 1000 * time.Hour,
			want: contract.Decision{Action: contract.Continue},
		},
		"malformed timeout": {
			reason: "the job is picked up and goes on, to fail with what is wrong",
			item:   newItem(pickedUp(0, progressing), timeout("soon")), after: 1000 * time.Hour,
			want: contract.Decision{Action: contract.Continue},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			failWith(t, tc.reason, cmp.Diff(tc.want, contract.Decide(tc.item, noon.Add(tc.after))))
		})
	}
}

func TestDecideQueued(t *testing.T) {
	cases := map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		want   contract.Decision
	}{
		"waits": {
			reason: "a queued job is picked up once more when its turn comes", item: newItem(queued(0)),
			want: contract.Decision{Action: contract.PickUp},
		},
		"deletion": {
			reason: "deletions queue, too", item: newItem(deleted, queued(0)),
			want: contract.Decision{Action: contract.PickUp, Deletion: true},
		},
		"long": {
			reason: "the time of a job does not run in the queue", item: newItem(queued(-1000*time.Hour), timeout("1s")),
			want: contract.Decision{Action: contract.PickUp},
		},
		"aborted": {
			reason: "its deployer knows nothing of it",
			item:   newItem(queued(0), accepts(v1alpha1.OperationAbort)), want: contract.Decision{Action: contract.GiveUp},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			failWith(t, tc.reason, cmp.Diff(tc.want, contract.Decide(tc.item, noon)))
		})
	}
}

func TestDeadline(t *testing.T) {
	picked := pickedUp(0, v1alpha1.DeployItemPhaseProgressing)
	cases := map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		want   time.Time
		wrong  bool
	}{
		"default": {reason: "ten minutes from the pick-up on", item: newItem(picked), want: at(10 * time.Minute).Time},
		"timeout": {
			reason: "what the item says", item: newItem(picked, timeout("1h30m")), want: at(90 * time.Minute).Time,
		},
		"none":          {reason: "zero for none", item: newItem(picked, timeout("none"))},
		"not picked up": {reason: "no deadline before the pick-up", item: newItem()},
		"queued":        {reason: "the time of a job does not run in the queue", item: newItem(queued(0))},
		"aborted": {
			reason: "an abort has its own time", item: newItem(picked, timeout("none"), accepts(v1alpha1.OperationAbort)),
			want: at(time.Minute + time.Second).Time,
		},
		"no times":    {reason: "no deadline before the pick-up", item: &v1alpha1.DeployItem{}},
		"no duration": {reason: "an error before anything else", item: newItem(timeout("soon")), wrong: true},
		"negative": {
			reason: "a negative timeout is none that anybody means", item: newItem(picked, timeout("-1s")), wrong: true,
		},
		"beyond a int64": {
			reason: "the schema's pattern lets it pass", item: newItem(picked, timeout("99999999999999h")), wrong: true,
		},
	}
	for name, tc := range cases {
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
	cases := map[string]struct {
		a, b string
		want bool
	}{
		"newer":                {a: "10", b: "9", want: true},
		"the same":             {a: "9", b: "9"},
		"older":                {a: "9", b: "10"},
		"cannot be compared":   {a: "x", b: "9", want: true},
		"nothing is known yet": {a: "9", b: "", want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := contract.Newer(c.a, c.b); got != c.want {
				t.Errorf("expected %t, but found %t", c.want, got)
			}
		})
	}
}
