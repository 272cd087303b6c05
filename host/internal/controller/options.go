package controller

import (
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/selector"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// UserAgent is the user agent of hosts; a slash and a version follow. The API server notes it with each write.
const UserAgent = "pergola-host"

// Options of a Controller.
type Options struct {
	// Plugins to call. The Controller is their listener. Required.
	Plugins *plugin.Set
	// Locks of items; the Controller is their listener. Nil for a host without other replicas.
	Locks *lock.Locker
	// Identity of this installation, for the status of the items. Required.
	Identity string
	// Workers is the number of calls of a plugin at once. Calls do not wait, so that few suffice. Required.
	Workers int
	// Limits of single plugins, by name.
	Limits map[string]Limits
	// AbortTimeout is the time of a deployer for an abort. Required.
	AbortTimeout time.Duration
	// MaxCrashes is the number of crashes of a plugin during calls for one job; with the last the job fails. A crash
	// beside other calls counts for a quarter. Zero stands for 3.
	MaxCrashes int
	// HookTimeout bounds one call of a plugin's hooks. Zero for no bound.
	HookTimeout time.Duration
	// MinimumInterval is the least time from the beginning of a job to that of the next job by hooks, such as a schedule.
	// Jitter is the most by which such a job begins later; each item has a constant part of it.
	MinimumInterval, Jitter time.Duration
	// HTTPHooks are the registered HTTP hooks; nil for none.
	HTTPHooks HTTPHooks
	// Selectors choose the items of certain Targets; the zero value takes all.
	Selectors selector.Selectors
	// Keeper keeps the Targets and other objects of items until the items are gone; nil for no keeper.
	Keeper job.Keeper
	// Standalone: there is no Landscaper. A missing Context "default" counts as an empty one, because no Landscaper
	// creates it, and a job that failed for a missing reference is followed by another when the reference exists.
	Standalone bool
	// Pauses are those before the next job of a failed item, in standalone mode; zero for no next job.
	Pauses contract.Pauses
	// Repaired is called with items whose Target, Secret, Context or DeployerRegistration has changed. It must not block.
	// Nil for no call.
	Repaired func(items []types.NamespacedName)
	// TargetServiceAccount is the ServiceAccount for Targets of the cluster itself, in the namespace of each Target; empty
	// if each Target names its own.
	TargetServiceAccount string
	// JobEnded is called with the plugin of each job that has ended without an outcome of the plugin, for example after
	// its timeout. It must not block. Nil for no call.
	JobEnded func(plugin string)
	// Served is called with the types of each new plugin, and with no types when all plugins have tried to start. It must
	// not block. Nil for no call.
	Served func(types []v1alpha1.DeployItemType)
	// Begin is closed when the Controller may reconcile items; nil for at once.
	Begin <-chan struct{}
	// Items is the source of the deploy items in the manager's cache. Required.
	Items *itemcache.Source
	// Observed gets the events of jobs; nil for no events.
	Observed *telemetry.Stream
	// Log is required.
	Log *slog.Logger
}

// Limits are those of the operator for one plugin. Zero stands for the limits of the plugin itself.
type Limits struct {
	// Workers replace those of Options; WorkersPerTarget are the most for the items of one Target.
	Workers, WorkersPerTarget int
	// DefaultTimeout is the longest time of a job without spec.timeout.
	DefaultTimeout time.Duration
}

// HTTPHooks are the *httphook.Registrations.
type HTTPHooks interface {
	job.HTTPHooks
	// Synced is closed when the hooks are known. No item is reconciled before.
	Synced() <-chan struct{}
}

// rules are the rules for the decisions of a host.
func rules(options Options, now clock.PassiveClock) contract.Rules {
	return contract.Rules{Standalone: options.Standalone, Now: now.Now}
}
