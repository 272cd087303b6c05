package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// finished is an item whose last job began at a time and is done.
func finished(spec *managedresource.ContinuousReconcile, began time.Time) *v1alpha1.DeployItem {
	item := call(func(c *mockv1alpha1.ProviderConfiguration) { c.ContinuousReconcile = spec }).DeployItem
	at := v1alpha1.NewTime(began)
	item.Status.JobID, item.Status.JobIDFinished, item.Status.LastReconcileTime = "job", "job", &at
	return item
}

func TestSchedule(t *testing.T) {
	const (
		none = "no opinion"
		due  = "enforces a job"
		wait = "asks for another look"
	)
	// No clock is near the due times: the last job began years ago, or a moment ago with years to wait.
	longAgo, justNow := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Now()
	cases := map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		want   string
	}{
		"none":        {"an item without the field has no schedule", finished(nil, longAgo), none},
		"empty":       {"an object without a field is allowed and no schedule", finished(&managedresource.ContinuousReconcile{}, longAgo), none},
		"interval":    {"the interval has passed", finished(&managedresource.ContinuousReconcile{Every: "1h"}, longAgo), due},
		"not yet due": {"the interval has not passed", finished(&managedresource.ContinuousReconcile{Every: "100000h"}, justNow), wait},
		"cron":        {"the time was missed", finished(&managedresource.ContinuousReconcile{Cron: "@yearly"}, longAgo), due},
		// Rule (deploy-items.md#the-mock-deployer): In the mock deployer `cron` takes precedence over `every`.
		"both":       {"cron wins", finished(&managedresource.ContinuousReconcile{Every: "100000h", Cron: "@daily"}, longAgo), due},
		"cron wrong": {"cron wins, although it cannot be read", finished(&managedresource.ContinuousReconcile{Every: "1h", Cron: "TZ="}, longAgo), none},
		"wrong":      {"a schedule that cannot be read is none", finished(&managedresource.ContinuousReconcile{Every: "soon"}, longAgo), none},
		"unreadable": {"a configuration that cannot be read has no schedule", func() *v1alpha1.DeployItem {
			item := finished(nil, longAgo)
			item.Spec.Config = raw(`{"continuousReconcile": 1}`)
			return item
		}(), none},
	}
	plugin := newPlugin(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			outcomes, err := plugin.RunHooks(t.Context(), hook.ShouldReconcile, tc.item, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(outcomes) != 1 {
				t.Fatalf("expected one function, but found the outcomes %+v", outcomes)
			}
			if got := describe(outcomes[0]); got != tc.want {
				t.Errorf("%s: expected that the hook %s, but it %s", tc.reason, tc.want, got)
			}
		})
	}
}

func describe(outcome sdktest.HookOutcome) string {
	switch {
	case outcome.Err != nil:
		return "failed: " + outcome.Err.Message
	case outcome.Result == nil:
		return "no opinion"
	case !outcome.Result.AbortReconcile:
		return "enforces a job"
	case outcome.Result.RequeueAfter > 0:
		return "asks for another look"
	default:
		return "stops without asking for another look"
	}
}

func TestScheduleFailsNoJob(t *testing.T) {
	cases := map[string]struct {
		reason string
		spec   managedresource.ContinuousReconcile
		want   []string // parts of the warnings
	}{
		"good":  {"there is nothing to warn about", managedresource.ContinuousReconcile{Every: "1m"}, nil},
		"both":  {"cron wins without a word", managedresource.ContinuousReconcile{Every: "1m", Cron: "* * * * *"}, nil},
		"every": {"the warning names the field", managedresource.ContinuousReconcile{Every: "-1m"}, []string{`spec.config.continuousReconcile.every: found "-1m"`}},
		"cron":  {"the warning names the field", managedresource.ContinuousReconcile{Cron: "daily"}, []string{`spec.config.continuousReconcile.cron: found "daily"`}},
	}
	plugin := newPlugin(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			result := plugin.Reconcile(t.Context(), call(func(c *mockv1alpha1.ProviderConfiguration) { c.ContinuousReconcile = &tc.spec }))
			if result.Succeeded == nil {
				t.Fatalf("the mock deployer takes any schedule, but: %s", result)
			}
			var got []string
			for _, m := range result.Messages {
				if m.Event != nil && m.Event.Warning && m.Event.Reason == reasonSchedule {
					got = append(got, m.Event.Message)
				}
			}
			same := cmp.Comparer(func(a, b string) bool { return strings.Contains(a, b) || strings.Contains(b, a) })
			if diff := cmp.Diff(tc.want, got, same); diff != "" {
				t.Errorf("%s: warnings (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
