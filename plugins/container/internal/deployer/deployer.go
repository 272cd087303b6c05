// Package deployer is the deployer of containers: each job of an item runs a Pod to its end. This package checks the
// input of users and operators, and decides about the Pod; package pod creates, reads and removes it.
//
// A job has one run, named after the item, the job and the operation. The run is noted in the provider status before
// the creation of its objects, and its outcome before their removal. So the next call, after a crash or in another
// replica, finds the existing Pod, and never repeats a finished run. A Pod has a finalizer until its outcome is
// noted, to tell a deleted Pod from one never created.
package deployer

import (
	"context"
	"sync"
	"time"

	"github.com/pergola-deploy/pergola/plugins/container/content"
	"github.com/pergola-deploy/pergola/plugins/container/internal/components"
	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

// Options are the options of a Deployer.
type Options struct {
	// UserAgent is the user agent for API servers.
	UserAgent string
	// Resolver resolves references before the deployer does; nil for none.
	Resolver content.Resolver
	// CacheDir is the folder for components. It belongs to the deployer alone. Required for references.
	CacheDir string
	// Clients are options for its clients.
	Clients []target.Option
	// Now is the clock; nil for the machine's.
	Now func() time.Time
}

// Deployer runs containers. Between calls it keeps clients of clusters, and watches for waiting items; both are for
// speed alone.
type Deployer struct {
	options  Options
	settings config.Settings
	clusters *target.Cache
	watches  *watch.Set
	// finder returns the Finder, and makes it and its cache at the first call.
	finder func() (*components.Finder, error)
}

var (
	_ sdk.Deployer   = (*Deployer)(nil)
	_ sdk.Aborter    = (*Deployer)(nil)
	_ sdk.Configurer = (*Deployer)(nil)
	_ sdk.Validator  = (*Deployer)(nil)
	_ sdk.Watcher    = (*Deployer)(nil)
	_ sdk.Hooker     = (*Deployer)(nil)
	_ sdk.Collector  = (*Deployer)(nil)
)

// wakePause is short, because a Pod and its result change seldom, and shortly after each other.
const wakePause = 50 * time.Millisecond

// New returns a deployer.
func New(o Options) *Deployer {
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Deployer{
		options: o, clusters: target.NewCache(o.UserAgent, o.Clients...), watches: watch.New(watch.Pause(wakePause)),
	}
	d.use(config.DefaultSettings())
	return d
}

// componentsBytes bounds the cache of components. Blueprints are small.
const componentsBytes = 128 << 20

func (d *Deployer) use(s config.Settings) {
	d.settings = s
	d.finder = sync.OnceValues(func() (*components.Finder, error) {
		fetcher, err := fetch.New(fetch.Config{
			Dir: d.options.CacheDir, MaxBytes: componentsBytes, Registries: s.Registries, UserAgent: d.options.UserAgent,
		})
		if err != nil {
			return nil, err
		}
		return components.NewFinder(fetcher), nil
	})
}

// Configure implements sdk.Configurer.
func (d *Deployer) Configure(_ context.Context, req *sdk.ConfigureRequest) (*sdk.ConfigureResponse, error) {
	s, problems := config.LoadSettings(req.Document)
	if len(problems) == 0 {
		d.use(s)
	}
	return &sdk.ConfigureResponse{Problems: problems}, nil
}

// Validate implements sdk.Validator.
func (d *Deployer) Validate(_ context.Context, req *sdk.ValidateRequest) (*sdk.ValidateResponse, error) {
	problems, err := config.Problems(req.Config, &d.settings)
	if err != nil {
		return nil, err
	}
	return &sdk.ValidateResponse{Problems: problems}, nil
}

// Watch implements sdk.Watcher.
func (d *Deployer) Watch(ctx context.Context, wake func(namespace, name string)) error {
	return d.watches.Run(ctx, wake)
}

// Hooks implements sdk.Hooker: a finished item with a schedule gets a new job when it is due.
func (d *Deployer) Hooks() hook.Hooks {
	return hook.Hooks{}.RegisterHookSetup(continuousreconcile.Setup(continuousreconcile.FromSpec(config.ScheduleOf)))
}

// Reconcile runs the image to its end, and reads its exports.
func (d *Deployer) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	ctx = target.WithPermission(target.WithBreaker(ctx), req.PickUp)
	c, err := config.Read(req, &d.settings)
	if err != nil {
		return nil, err
	}
	j, err := d.begin(req, v1alpha1.OperationReconcile, placeOf(c))
	if err != nil {
		return nil, err
	}
	j.warnOf(c.Unknown)
	if res, err := j.run(ctx, c); res != nil || err != nil {
		return res, err
	}
	exports, err := j.exports(ctx)
	if err != nil {
		return j.end(), err
	}
	return &sdk.Response{ProviderStatus: j.status, Exports: exports}, nil
}

// Delete runs the image to its end once more, unless the item has the annotation forceCleanup, and removes everything
// of the item.
func (d *Deployer) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	ctx = target.WithBreaker(ctx)
	status, err := readStatus(req)
	if err != nil || status.Run == nil && status.PodStatus == nil {
		return nil, err // nothing was ever begun, by Landscaper neither
	}
	// As in Landscaper any value of the annotation counts.
	if _, cleansUpOnly := req.DeployItem.Annotations[forceCleanup]; cleansUpOnly {
		if status.Run == nil {
			return nil, nil //nolint:nilnil // the job is done, see sdk.Deployer
		}
		j, err := d.begin(req, v1alpha1.OperationDelete, &status.Run.Place)
		if err != nil {
			return nil, err
		}
		return j.removeAll(ctx)
	}
	c, err := config.Read(req, &d.settings)
	if err != nil {
		return nil, withWayOut(err)
	}
	j, err := d.begin(req, v1alpha1.OperationDelete, placeOf(c))
	if err != nil {
		return nil, err
	}
	if res, err := j.run(ctx, c); res != nil || err != nil {
		return res, withWayOut(err)
	}
	return j.removeAll(ctx)
}

// Abort stops a running Pod of the item, and waits until it has stopped.
func (d *Deployer) Abort(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	ctx = target.WithBreaker(ctx)
	status, err := readStatus(req)
	if err != nil || status.Run == nil {
		return nil, err
	}
	j, err := d.begin(req, status.Run.Operation, &status.Run.Place)
	if err != nil {
		return nil, err
	}
	if res, err := j.stopLast(ctx); res != nil || err != nil {
		return res, err
	}
	return j.end(), nil
}

// placeOf returns the place of the Pod by the provider configuration; nil for the place of the plugin's settings.
func placeOf(c *config.Config) *v1alpha1.Place {
	if c.RunOnTarget == nil {
		return nil
	}
	return &v1alpha1.Place{Namespace: c.RunOnTarget.Namespace, OnTarget: true}
}
