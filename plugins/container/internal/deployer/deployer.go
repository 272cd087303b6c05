// Package deployer is the deployer of containers: each job of an item runs a Pod to its end. It checks the input of
// users and operators, and removes the objects of deleted items; package run carries out the jobs.
package deployer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pergola-deploy/pergola/plugins/container/content"
	"github.com/pergola-deploy/pergola/plugins/container/internal/components"
	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/input"
	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/container/internal/run"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
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
	options Options
	runner  run.Runner
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
	d := &Deployer{options: o, runner: run.Runner{
		Clusters: target.NewCache(o.UserAgent, o.Clients...), Watches: watch.New(watch.Pause(wakePause)), Now: o.Now,
	}}
	d.use(config.DefaultSettings())
	return d
}

// componentsBytes bounds the cache of components. Blueprints are small.
const componentsBytes = 128 << 20

func (d *Deployer) use(s config.Settings) {
	d.runner.Settings = s
	// The finder and its cache are made at the first reference.
	d.runner.Input = input.Source{Resolver: d.options.Resolver, Components: sync.OnceValues(
		func() (*components.Finder, error) {
			fetcher, err := fetch.New(fetch.Config{
				Dir: d.options.CacheDir, MaxBytes: componentsBytes, Registries: s.Registries, UserAgent: d.options.UserAgent,
			})
			if err != nil {
				return nil, err
			}
			return components.NewFinder(fetcher), nil
		})}
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
func (d *Deployer) Validate(_ context.Context, req *sdk.Request) (*sdk.ValidateResponse, error) {
	_, err := config.Read(req, &d.runner.Settings)
	return nil, err // a configuration with problems
}

// Watch implements sdk.Watcher.
func (d *Deployer) Watch(ctx context.Context, req *sdk.WatchRequest) error {
	return d.runner.Watches.Run(ctx, req.Wake)
}

// Hooks implements sdk.Hooker: a finished item with a schedule gets a new job when it is due.
func (d *Deployer) Hooks() hook.Hooks {
	return hook.Hooks{}.RegisterHookSetup(continuousreconcile.Setup(continuousreconcile.FromSpec(config.ScheduleOf)))
}

// Reconcile runs the image to its end, and reads its exports.
func (d *Deployer) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	ctx = apiserver.WithPermission(apiserver.WithBreaker(ctx), req.PickUp)
	c, err := config.Read(req, &d.runner.Settings)
	if err != nil {
		return nil, err
	}
	j, err := d.runner.Begin(req, v1alpha1.OperationReconcile, placeOf(c))
	if err != nil {
		return nil, err
	}
	j.WarnOf(c.Unknown)
	if res, err := j.Run(ctx, c); res != nil || err != nil {
		return res, err
	}
	exports, err := j.Exports(ctx)
	if err != nil {
		return j.End(), err
	}
	return j.Done(exports, nil), nil
}

// Delete runs the image to its end once more, unless the item has the annotation force-cleanup, and removes everything
// of the item.
func (d *Deployer) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	ctx = apiserver.WithBreaker(ctx)
	status, err := run.ReadStatus(req)
	if err != nil || status.Run == nil && status.PodStatus == nil {
		return nil, err // neither this deployer nor Landscaper has begun anything
	}
	// As in Landscaper any value of the annotation counts.
	if _, cleansUpOnly := req.DeployItem.Annotations[pod.ForceCleanupAnnotation]; cleansUpOnly {
		if status.Run == nil {
			return nil, nil //nolint:nilnil // the job is done, see sdk.Deployer
		}
		j, err := d.runner.Begin(req, v1alpha1.OperationDelete, &status.Run.Place)
		if err != nil {
			return nil, err
		}
		return j.RemoveAll(ctx)
	}
	c, err := config.Read(req, &d.runner.Settings)
	if err != nil {
		return nil, withWayOut(err)
	}
	j, err := d.runner.Begin(req, v1alpha1.OperationDelete, placeOf(c))
	if err != nil {
		return nil, err
	}
	if res, err := j.Run(ctx, c); res != nil || err != nil {
		return res, withWayOut(err)
	}
	return j.RemoveAll(ctx)
}

// Abort stops a running Pod of the item, and waits until it has stopped.
func (d *Deployer) Abort(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	ctx = apiserver.WithBreaker(ctx)
	status, err := run.ReadStatus(req)
	if err != nil || status.Run == nil {
		return nil, err
	}
	j, err := d.runner.Begin(req, status.Run.Operation, &status.Run.Place)
	if err != nil {
		return nil, err
	}
	if res, err := j.StopLast(ctx); res != nil || err != nil {
		return res, err
	}
	return j.End(), nil
}

// placeOf returns the place of the Pod by the provider configuration; nil for the place of the plugin's settings.
func placeOf(c *config.Config) *v1alpha1.Place {
	if c.RunOnTarget == nil {
		return nil
	}
	return &v1alpha1.Place{Namespace: c.RunOnTarget.Namespace, OnTarget: true}
}

// withWayOut adds to an error about the last run of an item a way to delete the item without it; nil for nil.
func withWayOut(err error) error {
	known, ok := errors.AsType[*sdk.Error](err)
	if !ok || len(known.Codes) == 0 {
		return err
	}
	return &sdk.Error{Codes: known.Codes, Operation: known.Operation, Reason: known.Reason, Err: fmt.Errorf(
		"%w\nTo delete the deploy item without running its image, annotate it with %s: %q and start another job",
		err, pod.ForceCleanupAnnotation, "true")}
}
