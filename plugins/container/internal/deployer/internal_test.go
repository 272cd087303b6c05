package deployer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// TestSchedule: the image is run again when it is due by its schedule.
// Rule (container.md#provider-configuration): The container deployer has schedules.
func TestSchedule(t *testing.T) {
	t.Parallel()
	lastYear := landscaper.NewTime(time.Now().AddDate(-1, 0, 0))
	for schedule, want := range map[string]*hook.Result{
		`null`: nil, `{"every": "1h"}`: {}, `{"cron": "@daily"}`: {},
	} {
		item := &landscaper.DeployItem{}
		item.Spec.Config = &runtime.RawExtension{Raw: fmt.Appendf(nil,
			`{"apiVersion": %q, "kind": %q, "continuousReconcile": %s}`,
			v1alpha1.GroupVersion, v1alpha1.ProviderConfigurationKind, schedule)}
		item.Status.JobID, item.Status.JobIDFinished, item.Status.LastReconcileTime = "a", "a", &lastYear
		got, err := (&Deployer{}).Hooks()[hook.ShouldReconcile][0](t.Context(), item, nil, hook.ShouldReconcile)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, -want +got:\n%s", schedule, err, diff)
		}
	}
}

// A newer version of the plugin may have noted what this one does not know.
func TestStatusOfANewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	item := &landscaper.DeployItem{}
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(
		`{"apiVersion":"container.deployer.landscaper.gardener.cloud/v1alpha2","kind":"ProviderStatus"}`)}
	_, err := (&Deployer{}).Delete(t.Context(), &sdk.Request{DeployItem: item})
	e, ok := errors.AsType[*sdk.Error](err)
	if !ok || e.Reason != sdk.ReasonProviderStatusUnknown {
		t.Errorf("expected the reason %s, but found %v", sdk.ReasonProviderStatusUnknown, err)
	}
}
