package job

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/exports"
	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/itemevents"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// ErrAbandoned is the error of a job if the host stops and its plugin has not ended the call: the plugin may still be
// at work, and no other replica may begin before its end.
var ErrAbandoned = errors.New("the plugin's call was abandoned")

// DefaultMaxCrashes is the default of Options.MaxCrashes.
const DefaultMaxCrashes = 3

// Runner carries on the jobs of one plugin. All fields without a default are required.
type Runner struct {
	Plugin    Plugin
	Items     *itemclient.Client
	Changes   Changes
	Exports   *exports.Writer
	Targets   *target.Resolver
	Locks     Locks
	Slots     *slots.Slots
	HTTPHooks HTTPHooks // nil for none
	Keeper    Keeper    // nil for none
	Holders   Holders   // nil beside a Landscaper
	Events    *itemevents.Recorder
	Clock     clock.WithTicker
	Random    func() float64
	NewJobID  func() string
	Log       *slog.Logger
	// JobEnded gets the plugin of each job without an outcome of its own; nil for none.
	JobEnded func(plugin string)
	// UnknownOperation gets an item with a new request for an unknown operation.
	UnknownOperation func(item *v1alpha1.DeployItem)
	Options
}

// Options of the jobs.
type Options struct {
	// Identity of this installation.
	Identity string
	// MaxCrashes is the limit of crashes during a job.
	MaxCrashes int
	// Selective: other hosts may be responsible for the item when its Target changes.
	Selective bool
	// Standalone: there is no Landscaper.
	Standalone bool
	// Pauses are those before the next job of a failed item, in standalone mode; zero for no next job.
	Pauses contract.Pauses
	// DefaultTimeout is the longest time of a job without spec.timeout; zero for no such bound.
	DefaultTimeout time.Duration
}

// Plugin is a *plugin.Plugin.
type Plugin interface {
	telemetry.Plugin
	Info() plugin.Info
}

// Locks is a *lock.Locker, or lock.Off.
type Locks interface {
	Holds(key lock.Key) bool
	Rank(key lock.Key) int
	Acquire(ctx context.Context, key lock.Key) (*lock.Lock, error)
}

// Changes shows changes of items by other clients.
type Changes interface {
	// Subscribe returns a channel for signals that an item may have changed, until end is called.
	Subscribe(item types.NamespacedName) (signals <-chan struct{}, end func())
	// IsCurrent reports whether there is no newer version of an item in the cache.
	IsCurrent(ctx context.Context, item *v1alpha1.DeployItem) bool
}

// HTTPHooks are the *httphook.Registrations.
type HTTPHooks interface {
	// For returns the hook of a type; nil if it has none. The error says why its hook cannot be called.
	For(itemType v1alpha1.DeployItemType) (*httphook.Hook, error)
}

// Keeper is an *inuse.Keeper.
type Keeper interface {
	// Keep keeps what the deletion of an item reads until the item is gone.
	Keep(ctx context.Context, used ...client.Object) error
}

// Holders is an *itemcache.Source. It has the items that hold what others need, and those others.
type Holders interface {
	// Marked returns the item with this value of mark.DeployItem; nil for none.
	Marked(value string) *v1alpha1.DeployItem
	// Claims returns the needs of living items for what an item holds.
	Claims(holder *v1alpha1.DeployItem) ([]sdk.Claim, error)
}

// Hooks are the plugin hooks for one item.
type Hooks interface {
	// Has reports whether there is a hook of one of the types.
	Has(types ...sdkhook.Type) bool
	// Run runs the hooks of a type. held is nil if the job goes on.
	Run(ctx context.Context, t sdkhook.Type, item *v1alpha1.DeployItem) (held *Held, err error)
	// ReportError reports a failed hook to user and operator.
	ReportError(item *v1alpha1.DeployItem, err error)
}

// Held is the reason of a job held up by plugin hooks.
type Held struct {
	Plugins []string
	Message string
}

// Task is a job to carry on.
type Task struct {
	// Item belongs to the job from now on.
	Item     *v1alpha1.DeployItem
	Decision contract.Decision
	Hooks    Hooks
	Progress
}

// Progress is remembered between two runs of one job.
type Progress struct {
	// Since is the time when this replica has queued the job, or has begun it; zero if it has not.
	Since time.Time
	// Retries counts the errors in a row.
	Retries int
	// Due is the time of the next run.
	Due time.Time
	// Validated is the generation of the item that the plugin has found valid for the job; zero for none.
	Validated int64
	// WaitsFor is the plugin needed to go on with the job; empty for none.
	WaitsFor string
}

// Result is the state of a job after a run.
type Result struct {
	Progress
	// Item is as the API server has it. After an error it may show a pick-up that was not written.
	Item *v1alpha1.DeployItem
	// Gone: the item does not exist any more, or its last finalizer is removed.
	Gone bool
}
