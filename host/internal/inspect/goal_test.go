package inspect_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	noTarget := contract.Error{Operation: contract.OperationResolve, Reason: contract.ReasonTargetNotFound, Message: "there is no such Target"}
	for _, tc := range []struct {
		reason string
		goal   string
		item   *v1alpha1.DeployItem // nil for one that is gone
		want   inspect.Verdict
	}{
		{reason: "no job yet", goal: "succeeded", item: newItem(), want: inspect.Verdict{Waiting: "waits for a job for its generation 2"}},
		{reason: "nobody takes the job", goal: "succeeded", item: newItem(jobSet("job-1", 0)), want: inspect.Verdict{Waiting: "no phase yet: nobody has picked up the job yet"}},
		{reason: "nobody serves the type", goal: "succeeded", item: newItem(unserved), want: inspect.Verdict{Failed: "no plugin here serves it"}},
		{reason: "the job is under way", goal: "succeeded", item: after(underWay), want: inspect.Verdict{Waiting: "Progressing: Deployment shop/web: Available: 1/3"}},
		{reason: "the job succeeded", goal: "succeeded", item: after(succeeded), want: inspect.Verdict{Reached: true}},
		{reason: "what the job was for is not the item any more", goal: "succeeded", item: after(succeeded, changed), want: inspect.Verdict{Waiting: "waits for a job for its generation 3"}},
		{reason: "somebody asks for a job", goal: "succeeded", item: after(succeeded, asks("reconcile")), want: inspect.Verdict{Waiting: `Succeeded: the operation "reconcile", which is not taken up yet`}},
		{reason: "the job that was asked for is about to begin", goal: "succeeded", item: after(succeeded, asks("reconcile"), accepts("job-2", time.Minute)), want: inspect.Verdict{Waiting: "Succeeded"}},
		{reason: "the job failed", goal: "succeeded", item: after(broken), want: inspect.Verdict{Failed: `ConfigInvalid: spec.config: unknown field "manifest"`}},
		{reason: "a job failed, and its item was mended", goal: "succeeded", item: after(broken, changed), want: inspect.Verdict{Waiting: "waits for a job for its generation 3"}},
		{reason: "it will never be deployed", goal: "succeeded", item: after(succeeded, deleted), want: inspect.Verdict{Failed: "it is being deleted"}},
		{reason: "it is gone", goal: "succeeded", want: inspect.Verdict{Failed: "it is gone"}},

		{reason: "a failure is an end", goal: "finished", item: after(broken), want: inspect.Verdict{Reached: true}},
		{reason: "the end of all", goal: "finished", want: inspect.Verdict{Reached: true}},
		{reason: "not finished", goal: "finished", item: after(underWay), want: inspect.Verdict{Waiting: "Progressing: Deployment shop/web: Available: 1/3"}},

		{reason: "nobody has asked for it", goal: "deleted", item: after(succeeded), want: inspect.Verdict{Waiting: "waits for its deletion, which nobody has asked for yet"}},
		{reason: "no job deletes it yet", goal: "deleted", item: after(succeeded, deleted), want: inspect.Verdict{Waiting: "waits for its end"}},
		{reason: "an old failure is not that of the deletion", goal: "deleted", item: after(broken, deleted), want: inspect.Verdict{Waiting: "waits for its end"}},
		{
			reason: "the deletion failed", goal: "deleted",
			item: after(succeeded, deleted, jobSet("job-2", time.Minute), pickedUp(time.Minute), fails(noTarget, 2*time.Minute)),
			want: inspect.Verdict{Failed: "NoTargetFound: there is no such Target"},
		},
		{reason: "it is gone, as it should be", goal: "deleted", want: inspect.Verdict{Reached: true}},

		{reason: "a condition it does not have", goal: "condition=Drifted", item: after(succeeded), want: inspect.Verdict{Waiting: "waits for the condition Drifted, which it does not have yet"}},
		{reason: "a condition that is True", goal: "condition=Ready", item: after(succeeded), want: inspect.Verdict{Reached: true}},
		{reason: "a condition that is not", goal: "condition=Ready", item: after(underWay), want: inspect.Verdict{Waiting: "waits for the condition Ready, which is Unknown: Deployment shop/web: Available: 1/3"}},
		{reason: "another status", goal: "condition=Ready=unknown", item: after(underWay), want: inspect.Verdict{Reached: true}},
		{reason: "nothing has a condition any more", goal: "condition=Ready", want: inspect.Verdict{Failed: "it is gone"}},
	} {
		goal, err := inspect.ParseGoal(tc.goal)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, goal.Judge(tc.item, at(5*time.Minute))); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", tc.goal, tc.reason, diff)
		}
	}
}

func TestParseGoal(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "done", "Succeeded", "condition", "condition=", "condition==True"} {
		if _, err := inspect.ParseGoal(text); err == nil {
			t.Errorf("expected no goal in %q", text)
		}
	}
	for _, text := range []string{"succeeded", "finished", "deleted", "condition=Ready", "condition=Ready=False"} {
		if goal, err := inspect.ParseGoal(text); err != nil || string(goal) != text {
			t.Errorf("%s: found %s, %v", text, goal, err)
		}
	}
}
