package main

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

func TestSchedule(t *testing.T) {
	const (
		none = "has no opinion"
		due  = "enforces a job"
		wait = "asks for another look"
	)
	// No clock is near the due times: the last job began years ago, or a moment ago with years to wait.
	longAgo := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	plugin := newPlugin(t)
	for _, c := range []struct {
		name, schedule, want string
		began                time.Time
	}{
		{"none", `null`, none, longAgo},
		{"empty", `{}`, none, longAgo},
		{"interval", `{"every": "1h"}`, due, longAgo},
		{"not yet due", `{"every": "100000h"}`, wait, time.Now()},
		{"cron", `{"cron": "@yearly"}`, due, longAgo},
		// Rule (deploy-items.md#the-mock-deployer): In the mock deployer `cron` takes precedence over `every`.
		{"both", `{"every": "100000h", "cron": "@daily"}`, due, longAgo},
		{"cron wrong", `{"every": "1h", "cron": "TZ="}`, none, longAgo},
		{"wrong", `{"every": "soon"}`, none, longAgo},
		{"unreadable", `1`, none, longAgo},
	} {
		t.Run(c.name, func(t *testing.T) {
			item, began := scheduled(c.schedule), v1alpha1.NewTime(c.began)
			item.Status.JobID, item.Status.JobIDFinished, item.Status.LastReconcileTime = "job", "job", &began
			outcomes, err := plugin.RunHooks(t.Context(), hook.ShouldReconcile, item, nil)
			if err != nil || len(outcomes) != 1 {
				t.Fatalf("expected one function, but found the outcomes %+v and error %v", outcomes, err)
			}
			got := none
			switch o := outcomes[0]; {
			case o.Err != nil:
				got = "fails: " + o.Err.Message
			case o.Result != nil && !o.Result.AbortReconcile:
				got = due
			case o.Result != nil && o.Result.RequeueAfter > 0:
				got = wait
			case o.Result != nil:
				got = "stops without asking for another look"
			}
			if got != c.want {
				t.Errorf("expected that the hook %s, but it %s", c.want, got)
			}
		})
	}
}

// TestScheduleFailsNoJob: a warning names the wrong field.
func TestScheduleFailsNoJob(t *testing.T) {
	plugin := newPlugin(t)
	for schedule, want := range map[string]string{
		`{"every": "1m"}`: "", `{"every": "1m", "cron": "* * * * *"}`: "",
		`{"every": "-1m"}`:  `spec.config.continuousReconcile.every: found "-1m"`,
		`{"cron": "daily"}`: `spec.config.continuousReconcile.cron: found "daily"`,
	} {
		result := plugin.Reconcile(t.Context(), sdktest.Call{DeployItem: scheduled(schedule)})
		var got []string
		for _, m := range result.Messages {
			if m.Event != nil && m.Event.Warning && m.Event.Reason == reasonSchedule {
				got = append(got, m.Event.Message)
			}
		}
		wanted := min(len(want), 1)
		if result.Succeeded == nil || len(got) != wanted || !strings.Contains(cmp.Or(got...), want) {
			t.Errorf("%s: expected a success and the warning %q, but found %q and %s", schedule, want, got, result)
		}
	}
}
