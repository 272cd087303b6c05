package deployer

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
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
		reason, schedule string
		want             *hook.Result
	}{
		"none":       {reason: "schedules are optional"},
		"every, due": {reason: "an interval is a schedule", schedule: `{"every": "1h"}`, want: &hook.Result{}},
		"cron, due":  {reason: "the time was missed", schedule: `{"cron": "@daily"}`, want: &hook.Result{}},
	} {
		t.Run(name, func(t *testing.T) {
			config := fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "continuousReconcile": %s}`,
				v1alpha1.GroupVersion, v1alpha1.ProviderConfigurationKind, cmp.Or(c.schedule, "null"))
			item := &landscaper.DeployItem{}
			item.Spec.Config = &runtime.RawExtension{Raw: []byte(config)}
			item.Status.JobID, item.Status.JobIDFinished, item.Status.LastReconcileTime = "a", "a", &lastYear
			got, err := functions[0](t.Context(), item, nil, hook.ShouldReconcile)
			if diff := gocmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%s: found error %v (-want +got):\n%s", c.reason, err, diff)
			}
		})
	}
}
