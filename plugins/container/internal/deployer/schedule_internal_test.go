package deployer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// TestSchedule: the image is run again when it is due by its schedule.
// Rule (container.md#provider-configuration): The container deployer has schedules.
func TestSchedule(t *testing.T) {
	t.Parallel()
	functions := (&Deployer{}).Hooks()[hook.ShouldReconcile]
	if len(functions) != 1 {
		t.Fatalf("expected one function at ShouldReconcile, but found %d", len(functions))
	}
	lastYear := landscaper.NewTime(time.Now().AddDate(-1, 0, 0))
	for name, c := range map[string]struct {
		reason, config string
		want           *hook.Result
	}{
		"none":       {reason: "schedules are optional", config: `{}`},
		"every, due": {reason: "an interval is a schedule", config: `{"continuousReconcile": {"every": "1h"}}`, want: &hook.Result{}},
		"cron, due":  {reason: "the time was missed", config: `{"continuousReconcile": {"cron": "@daily"}}`, want: &hook.Result{}},
	} {
		t.Run(name, func(t *testing.T) {
			item := &landscaper.DeployItem{Spec: landscaper.DeployItemSpec{Config: &runtime.RawExtension{Raw: []byte(c.config)}}}
			item.Status.JobID, item.Status.JobIDFinished, item.Status.LastReconcileTime = "a", "a", &lastYear
			got, err := functions[0](t.Context(), item, nil, hook.ShouldReconcile)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%s: found error %v (-want +got):\n%s", c.reason, err, diff)
			}
		})
	}
}
