package deployer

import (
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

// Hooks implements sdk.Hooker: a finished item with a schedule gets a new job when it is due.
func (d *Deployer) Hooks() hook.Hooks {
	return hook.Hooks{}.RegisterHookSetup(continuousreconcile.Setup(continuousreconcile.FromSpec(scheduleOf)))
}

// scheduleOf returns the schedule of an item, without a look at the rest of its provider configuration; nil if it has
// none, as always in v1alpha1. An invalid schedule is an error, and counts as none: the job has already failed with
// it.
func scheduleOf(item *landscaper.DeployItem) (*managedresource.ContinuousReconcile, error) {
	apiVersion, kind := (&sdk.Request{DeployItem: item}).ConfigGroupVersionKind()
	if apiVersion != v1alpha2.GroupVersion.String() || kind != v1alpha2.ProviderConfigurationKind {
		return nil, nil //nolint:nilnil // no schedule
	}
	schedule, err := continuousreconcile.ReadSpec(item)
	if err != nil || schedule == nil {
		return nil, err
	}
	_, err = continuousreconcile.Parse(schedule.Every, schedule.Cron)
	return schedule, err
}
