package contract_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Rule (deploy-items.md#next-tries): A failed job is followed by another after a pause, which doubles up to a limit.
func TestPauses(t *testing.T) {
	pauses := contract.Pauses{First: time.Minute, Longest: 5 * time.Minute}
	item, now := newItem(finished(succeeded)), noon.Truncate(time.Second)
	contract.SetNewJob(item, "first", now)
	contract.Begin(item, false, v1alpha1.DeployerInformation{}, now)
	for failures, want := range []time.Duration{
		time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute,
	} {
		if contract.IsTry(item) != (failures > 0) || hook.FirstJob(item) != "first" {
			t.Errorf("after %d failures: another try: %t, of %s", failures, contract.IsTry(item), hook.FirstJob(item))
		}
		if next, ok := pauses.NextTry(item); ok {
			t.Errorf("a running job is to be tried again at %s", next.At)
		}
		pauses.Fail(item, false, contract.Error{Reason: "Broken", Message: "broken"}, 0, now)
		next, ok := pauses.NextTry(item)
		if !ok || next.At.Sub(now) != want || next.Number != failures+2 || next.Job != "first" {
			t.Fatalf("after %d failures: expected a pause of %s, but found %+v: %+v", failures+1, want, next, nextTry(item))
		}
		if again := contract.AfterRepair(item); again.Number != 1 || again.Job != "first" {
			t.Errorf("after a repair: %+v", again)
		}
		now = next.At
		contract.SetTry(item, fmt.Sprint("try-", failures), next, now)
		contract.Begin(item, false, v1alpha1.DeployerInformation{}, now)
	}

	another := newItem(begun)
	pauses.Fail(another, false, contract.Error{Reason: "Broken"}, 1, now)
	if next, _ := pauses.NextTry(another); next.At.Sub(now) != 45*time.Second {
		t.Errorf("the pause of another item is to be up to a quarter shorter, but is %s", next.At.Sub(now))
	}
	contract.SetNewJob(item, "another", now)
	if contract.IsTry(item) || nextTry(item) != nil || hook.FirstJob(item) != "another" {
		t.Errorf("a new job counts as a try: %+v", item.Status.Conditions)
	}
	contract.SetTry(item, "last", contract.Try{Number: 9, Job: "first"}, now)
	for reason, change := range map[string]func(*v1alpha1.DeployItem){
		"a changed spec":         func(i *v1alpha1.DeployItem) { i.Generation++ },
		"a deletion":             func(i *v1alpha1.DeployItem) { i.Generation++; deleted(i) },
		"a job of other clients": func(i *v1alpha1.DeployItem) { i.Status.JobID = "theirs" },
	} {
		other := item.DeepCopy()
		for _, step := range []func(*v1alpha1.DeployItem){change, begun} {
			if step(other); contract.IsTry(other) || hook.FirstJob(other) != other.Status.JobID {
				t.Errorf("the job of %s counts as a try: %+v", reason, other.Status)
			}
		}
	}
	contract.Begin(item, false, v1alpha1.DeployerInformation{}, now)
	if contract.Succeed(item, now); nextTry(item) != nil {
		t.Errorf("another try after a success: %+v", item.Status.Conditions)
	}
}

// nextTry is the condition with the next try of an item; nil for none.
func nextTry(item *v1alpha1.DeployItem) *v1alpha1.Condition {
	for i, c := range item.Status.Conditions {
		if c.Type == contract.ConditionNextTry {
			return &item.Status.Conditions[i]
		}
	}
	return nil
}

// Rule (deploy-items.md#next-tries): An error in the item itself, and one that no repetition heals, has no next try.
func TestHealing(t *testing.T) {
	code := func(codes ...v1alpha1.ErrorCode) contract.Error {
		return contract.Error{Reason: "Broken", Codes: codes}
	}
	missing := contract.Error{Operation: contract.OperationResolve, Reason: contract.ReasonTargetNotFound, Terminal: true}
	rejected := code(v1alpha1.ErrorConfigurationProblem)
	rejected.Heals = true
	for name, tc := range map[string]struct {
		e     contract.Error
		heals bool
	}{
		"without a code":  {code(), true},
		"timeout":         {code(v1alpha1.ErrorTimeout), true},
		"unauthorized":    {code(v1alpha1.ErrorUnauthorized), true},
		"crashed plugin":  {code(v1alpha1.ErrorInternalProblem), true},
		"rejected object": {rejected, true},
		"configuration":   {code(v1alpha1.ErrorConfigurationProblem), false},
		"no retry":        {code(v1alpha1.ErrorTimeout, v1alpha1.ErrorNoRetry), false},
		"abort":           {contract.AbortedError(""), false},
		"missing Target, as its creation restarts the job": {missing, false},
	} {
		t.Run(name, func(t *testing.T) {
			item := newItem(begun)
			contract.Pauses{First: time.Minute, Longest: time.Hour}.Fail(item, false, tc.e, 0, noon)
			if _, ok := (contract.Pauses{First: time.Minute, Longest: time.Hour}).NextTry(item); ok != tc.heals {
				t.Errorf("expected %t, but found %+v", tc.heals, item.Status.Conditions)
			}
			item.Annotations = map[string]string{contract.RetriesAnnotation: "1m"}
			contract.Pauses{}.Fail(item, false, tc.e, 0, noon)
			if c := nextTry(item); c != nil {
				t.Errorf("beside a Landscaper there is a next try: %+v", c)
			}
		})
	}
}

// Rule (deploy-items.md#next-tries): A try that was not planned because of `none` is planned when that is gone.
func TestRetriesSwitchedOff(t *testing.T) {
	none := contract.Pauses{Longest: time.Hour}
	for name, pauses := range map[string]struct{ off, on contract.Pauses }{
		"by the host": {none, contract.Pauses{First: time.Minute, Longest: time.Hour}}, "by the item": {none, none},
	} {
		t.Run(name, func(t *testing.T) {
			item := newItem(begun)
			job := item.Status.JobID
			pauses.off.Fail(item, false, contract.Error{Reason: "Broken"}, 0, noon)
			for range 2 {
				if _, ok := pauses.off.NextTry(item); ok || !pauses.off.FitPlan(item) {
					t.Fatalf("retries are off, but found %+v", nextTry(item))
				}
				scheduled := item.DeepCopy()
				if contract.SetJobOfHook(scheduled, "scheduled", noon); hook.FirstJob(scheduled) != job {
					t.Errorf("a scheduled job repeats what must not be repeated: %+v", nextTry(scheduled))
				}
				if try := contract.AfterRepair(item); try.Job != job {
					t.Errorf("a repair makes a try of another job: %+v", try)
				}
				if pauses.on == none {
					item.Annotations = map[string]string{contract.RetriesAnnotation: "1m"}
				}
				if pauses.on.FitPlan(item) {
					t.Error("the condition counts as up to date")
				}
				pauses.on.Replan(item, 0, noon)
				next, ok := pauses.on.NextTry(item)
				want := contract.Try{Number: 2, Job: job, At: noon.Add(time.Minute).Truncate(time.Second).UTC()}
				if !ok || next != want {
					t.Errorf("expected %+v, but found %+v", want, next)
				}
				item.Annotations = nil
				pauses.off.Replan(item, 0, noon)
			}
		})
	}
}

// Rule (deploy-items.md#next-tries): The annotation `host.pergola.dev/retries` of an item overrides the pauses.
func TestRetriesAnnotation(t *testing.T) {
	host := contract.Pauses{First: time.Minute, Longest: time.Hour}
	for value, want := range map[string]contract.Pauses{
		"none": {Longest: time.Hour}, "10s": {First: 10 * time.Second, Longest: time.Hour},
		"2h": {First: 2 * time.Hour, Longest: 2 * time.Hour}, "1s,1m": {First: time.Second, Longest: time.Minute},
		"1m": host,
	} {
		if got, err := host.Override(value); got != want || err != nil {
			t.Errorf("%q: expected %v, but found %v, %v", value, want, got, err)
		}
	}
	for _, value := range []string{"", "soon", "1ms", "1m,10s", "1m,", "-1m", "1m,2m,3m"} {
		if got, err := host.Override(value); got != host || err == nil {
			t.Errorf("%q: expected an error and the pauses of the host, but found %v, %v", value, got, err)
		}
	}
	item := newItem(begun)
	item.Annotations = map[string]string{contract.RetriesAnnotation: "soon"}
	host.Fail(item, false, contract.Error{Reason: "Broken"}, 0, noon)
	c := nextTry(item)
	if c == nil || !strings.Contains(c.Message, `but found "soon"`) {
		t.Errorf("a malformed annotation is not shown: %+v", c)
	}
	if next, _ := host.NextTry(item); !next.At.Equal(noon.Add(time.Minute).Truncate(time.Second)) {
		t.Errorf("with a malformed annotation the pause of the host is in force, but found %+v", next)
	}
}

// Rule (deploy-items.md#next-tries): Any value of the annotation but "false" pauses an item.
func TestIsPaused(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"true": true, "True": true, "yes": true, "": true, "false": false, "False": false,
	} {
		item := &v1alpha1.DeployItem{}
		item.Annotations = map[string]string{contract.PausedAnnotation: value}
		if contract.IsPaused(item) != want {
			t.Errorf("%q: expected %t", value, want)
		}
	}
	if contract.IsPaused(&v1alpha1.DeployItem{}) {
		t.Error("expected an item without the annotation to go on")
	}
}
