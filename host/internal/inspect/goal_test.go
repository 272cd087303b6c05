package inspect_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	noTarget := contract.Error{
		Operation: contract.OperationResolve, Reason: contract.ReasonTargetNotFound, Message: "there is no such Target",
	}
	failedDeletion := slices.Concat(succeeded, []step{
		deleted, jobSet("job-2", time.Minute), pickedUp(time.Minute), fails(noTarget, 2*time.Minute),
	})
	accepted := accepts("job-2", time.Minute)
	for _, tc := range []struct {
		reason, goal string
		item         *v1alpha1.DeployItem // nil for a deleted item
		want         string               // the beginning of the verdict
	}{
		{"no job yet", "succeeded", newItem(), "waiting: waits for a job for its generation 2"},
		{"the job is not picked up", "succeeded", newItem(jobSet("job-1", 0)), "waiting: no phase yet: the job is not"},
		{"no plugin serves the type", "succeeded", newItem(unserved), "failed: no plugin here serves it"},
		{"the job is under way", "succeeded", after(underWay), "waiting: Progressing: Deployment shop/web: Available: 1/3"},
		{"the job succeeded", "succeeded", after(succeeded), "reached"},
		{
			"the item is another one since", "succeeded", after(succeeded, changed),
			"waiting: waits for a job for its generation 3",
		},
		{
			"a job is requested", "succeeded", after(succeeded, asks("reconcile")),
			`waiting: Succeeded: the operation "reconcile"`,
		},
		{"the job is about to begin", "succeeded", after(succeeded, asks("reconcile"), accepted), "waiting: Succeeded"},
		{"the job failed", "succeeded", after(broken), `failed: ConfigInvalid: spec.config: unknown field "manifest"`},
		{
			"a job failed, and its item was fixed", "succeeded", after(broken, changed),
			"waiting: waits for a job for its generation 3",
		},
		{"it will never be deployed", "succeeded", after(succeeded, deleted), "failed: it is being deleted"},
		{"it is gone", "succeeded", nil, "failed: it is gone"},

		{"a failure is an end", "finished", after(broken), "reached"},
		{"the end of all", "finished", nil, "reached"},
		{"not finished", "finished", after(underWay), "waiting: Progressing: Deployment shop/web: Available: 1/3"},

		{"no deletion is requested", "deleted", after(succeeded), "waiting: waits for a request to delete it"},
		{"no job deletes it yet", "deleted", after(succeeded, deleted), "waiting: waits for its end"},
		{"an old failure is not that of the deletion", "deleted", after(broken, deleted), "waiting: waits for its end"},
		{"the deletion failed", "deleted", after(failedDeletion), "failed: NoTargetFound: there is no such Target"},
		{"it is gone, as it should be", "deleted", nil, "reached"},

		{"a condition it does not have", "condition=Drifted", after(succeeded), "waiting: waits for the condition Drifted"},
		{"a condition that is True", "condition=Ready", after(succeeded), "reached"},
		{
			"a condition that is not", "condition=Ready", after(underWay),
			"waiting: waits for the condition Ready, which is Unknown",
		},
		{"another status", "condition=Ready=unknown", after(underWay), "reached"},
		{"nothing has a condition any more", "condition=Ready", nil, "failed: it is gone"},
	} {
		goal, err := inspect.ParseGoal(tc.goal)
		if err != nil {
			t.Fatal(err)
		}
		got := "reached"
		switch verdict := goal.Judge(tc.item, at(5*time.Minute)); {
		case verdict.Failed != "":
			got = "failed: " + verdict.Failed
		case !verdict.Reached:
			got = "waiting: " + verdict.Waiting
		}
		if !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s, %s: expected %q, but found %q", tc.goal, tc.reason, tc.want, got)
		}
	}
}

func TestParseGoal(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{
		"succeeded": true, "finished": true, "deleted": true, "condition=Ready": true, "condition=Ready=False": true,
		"": false, "done": false, "Succeeded": false, "condition": false, "condition=": false, "condition==True": false,
	} {
		if goal, err := inspect.ParseGoal(text); (err == nil) != valid || valid && string(goal) != text {
			t.Errorf("%q: found %q, %v", text, goal, err)
		}
	}
}
