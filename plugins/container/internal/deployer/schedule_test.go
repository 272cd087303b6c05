package deployer_test

import (
	"testing"
	"time"

	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// TestSchedule: a finished item asks for another job when its schedule is due. One without a schedule never does.
func TestSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hourAgo := landscaper.NewTime(time.Now().Add(-time.Hour))
	for schedule, due := range map[string]bool{"30m": true, "": false} {
		item := w.item("count")
		config := w.config("count")
		if schedule != "" {
			config["continuousReconcile"] = object{"every": schedule}
		}
		w.SetConfig(item, config)
		item.Status.JobIDFinished, item.Status.LastReconcileTime = item.Status.JobID, &hourAgo
		outcomes, err := w.Plugin.RunHooks(t.Context(), hook.ShouldReconcile, item, nil)
		if err != nil || len(outcomes) != 1 || outcomes[0].Err != nil {
			t.Fatalf("expected one outcome without an error, but found %+v, %v", outcomes, err)
		}
		if result := outcomes[0].Result; (result != nil && *result == hook.Result{}) != due {
			t.Errorf("schedule %q: expected that a job is due: %t, but found %+v", schedule, due, result)
		}
	}
}
