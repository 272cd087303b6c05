package main

import (
	"context"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

// reasonSchedule is the reason of the warning about an unreadable schedule.
const reasonSchedule = "ContinuousReconcileInvalid"

// Hooks makes the host reconcile finished items again by their schedule.
func (d *deployer) Hooks() hook.Hooks {
	return hook.Hooks{}.RegisterHookSetup(continuousreconcile.Setup(nextTime))
}

// nextTime takes an unreadable schedule for none. Reconcile warns about it.
func nextTime(_ context.Context, after time.Time, item *v1alpha1.DeployItem) (*time.Time, error) {
	spec, err := continuousreconcile.ReadSpec(item)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // never
	}
	schedule, err := parseSchedule(spec)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // never
	}
	return schedule.Next(after), nil
}

// parseSchedule prefers cron where other deployers refuse a schedule with both.
func parseSchedule(spec *managedresource.ContinuousReconcile) (continuousreconcile.Schedule, error) {
	switch {
	case spec == nil:
		return continuousreconcile.Schedule{}, nil
	case spec.Cron != "":
		return continuousreconcile.Parse("", spec.Cron)
	default:
		return continuousreconcile.Parse(spec.Every, "")
	}
}
