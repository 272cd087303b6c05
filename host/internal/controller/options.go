package controller

import (
	"log/slog"
	"time"

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

// UserAgent is the user agent of hosts, which the API server notes with each write; a slash and a version follow.
const UserAgent = "pergola-host"

// Options of a Controller.
type Options struct {
	// Plugins to call. The Controller is their listener. Required.
	Plugins *plugin.Set
	// Locks of items; the Controller is their listener. Nil for a host without other replicas.
	Locks *lock.Locker
	// Identity of this installation, for the status of the items. Required.
	Identity string
	// Workers is how many calls of a plugin may run at once. Calls do not wait, so that few suffice. Required.
	Workers int
	// PluginWorkers are the Workers of single plugins, by name.
	PluginWorkers map[string]int
	// AbortTimeout is how long a deployer may take for an abort. Required.
	AbortTimeout time.Duration
	// MaxCrashes is how often a plugin may crash during calls for one job; with the last the job fails. A crash beside
	// other calls counts for a quarter. Zero stands for 3.
	MaxCrashes int
	// HookTimeout is how long one call of a plugin's hooks may take. Zero for ever.
	HookTimeout time.Duration
	// MinimumInterval is the least time between the beginning of a job and that of the next one that hooks, such as a
	// schedule, request. Jitter is how much later such a job may begin; each item has a constant part of it.
	MinimumInterval, Jitter time.Duration
	// HTTPHooks say which HTTP hooks there are; nil for none.
	HTTPHooks HTTPHooks
	// Selectors choose the items of certain Targets; the zero value takes all.
	Selectors selector.Selectors
	// Keeper keeps what items use until they are gone; nil for a host that does not.
	Keeper job.Keeper
	// Standalone: there is no Landscaper. A missing Context "default" counts as an empty one, because no Landscaper
	// creates it, and a job that failed for a missing reference is followed by another when the reference exists.
	Standalone bool
	// TargetServiceAccount is the ServiceAccount of its namespace as which each Target of the cluster itself acts;
	// empty if each names its own.
	TargetServiceAccount string
	// JobEnded is called with the plugin of each job that has ended without its outcome, such as one that has exceeded
	// its time. It must not block. Nil for no call.
	JobEnded func(plugin string)
	// Served is called with the types of each plugin that comes to be served, and with none when all plugins have tried
	// to start. It must not block. Nil for no call.
	Served func(types []v1alpha1.DeployItemType)
	// Items is the source of the deploy items in the manager's cache. Required.
	Items *itemcache.Source
	// Observed gets the events of jobs; nil for no events.
	Observed *telemetry.Stream
	// Log is required.
	Log *slog.Logger
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
