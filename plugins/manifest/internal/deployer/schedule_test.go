package deployer_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// opinion is what a schedule says about a finished item.
type opinion string

const (
	opinionNone opinion = "none"
	opinionDue  opinion = "due"
	// opinionLater is that of a schedule whose next time has not come.
	opinionLater opinion = "later"
)

func opinionOf(t *testing.T, outcomes []sdktest.HookOutcome) opinion {
	t.Helper()
	if len(outcomes) != 1 || outcomes[0].Err != nil {
		t.Fatalf("expected one outcome without an error, but found %+v", outcomes)
	}
	switch result := outcomes[0].Result; {
	case result == nil:
		return opinionNone
	case result.AbortReconcile && result.RequeueAfter > 0:
		return opinionLater
	case *result == hook.Result{}:
		return opinionDue
	default:
		t.Fatalf("expected one of the results that a schedule may have, but found %+v", result)
		return ""
	}
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hourAgo := landscaper.NewTime(time.Now().Add(-time.Hour))
	good := config(w.configMap("a", nil))
	scheduled := func(schedule any) object { return with(good, "continuousReconcile", schedule) }
	for name, c := range map[string]struct {
		reason string
		config object
		want   opinion
	}{
		"none": {reason: "schedules are optional", config: good, want: opinionNone},
		// Rule (manifest.md#drift): The manifest deployer has schedules.
		"every, due": {
			reason: "the interval counts from the start of the last job",
			config: scheduled(object{"every": "30m"}), want: opinionDue,
		},
		"cron": {
			reason: "an interval may be given to cron, too",
			config: scheduled(object{"cron": "@every 1000h"}), want: opinionLater,
		},
	} {
		t.Run(name, func(t *testing.T) {
			item := w.item(c.config)
			item.Status.JobIDFinished = item.Status.JobID
			item.Status.LastReconcileTime = &hourAgo
			outcomes, err := w.Plugin.RunHooks(t.Context(), hook.ShouldReconcile, item, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := opinionOf(t, outcomes); got != c.want {
				t.Errorf("%s: expected %q, but found %q", c.reason, c.want, got)
			}
		})
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	got := newWorld(t).Plugin.Info().Capabilities
	want := sdktest.Capabilities{
		Render: true, Diff: true, Validate: true, Configure: true, Watch: true, LatePickUp: true,
		Hooks: []hook.Type{hook.ShouldReconcile},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
