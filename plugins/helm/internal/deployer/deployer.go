// Package deployer is the deployer of Helm charts, with releases of Helm or without. Its code in common with other
// deployers lives in plugins/internal, and the code for Helm in the packages beside it; this package puts them
// together.
//
// # A job with a release
//
// One request reads the revisions of the release. Their labels have a digest of the chart, the values and all else
// about the objects; with it the job compares the last one to the wanted one. If they are equal, and the objects
// unchanged since Helm wrote them, there is nothing to do. Otherwise Helm installs or upgrades, in a process of its
// own. It hands its objects over before it creates any: they are saved in the provider status first, and an HTTP hook
// may have changed them. Helm does not wait for them unless it has to, since it would occupy a worker of the host; the
// job waits between its calls, as in other deployers.
//
// # A job without a release
//
// Helm renders the chart, and the objects are applied as in the manifest deployer.
package deployer

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/settings"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

// Options are the options of a Deployer.
type Options struct {
	// UserAgent is the deployer's name for API servers, registries and repositories.
	UserAgent string
	// Helm returns an executor of requests, for at most so many at once. Required.
	Helm func(workers int, log *slog.Logger) helm.Helm
	// CacheDir is the folder for charts. It belongs to the deployer alone. Required.
	CacheDir string
	// Resolvers are further chart sources, by the field of the provider configuration's chart.
	Resolvers map[chart.Field]chart.Resolver
	// Targets are options for the clients of targets.
	Targets []target.Option
	// Clock is the clock of the chart cache. Defaults to the system's.
	Clock clock.PassiveClock
	// Log is for messages about no DeployItem.
	Log *slog.Logger
}

// Deployer deploys Helm charts. Between calls it keeps clients of targets and charts, and watches the objects of
// waiting items; all of it is for speed alone.
type Deployer struct {
	options  Options
	settings settings.Settings
	targets  *target.Cache
	charts   *chartsource.Fetcher
	helm     helm.Helm
	watches  *watch.Set
}

var (
	_ sdk.Deployer        = (*Deployer)(nil)
	_ sdk.Configurer      = (*Deployer)(nil)
	_ sdk.Differ          = (*Deployer)(nil)
	_ sdk.ForceReconciler = (*Deployer)(nil)
	_ sdk.Hooker          = (*Deployer)(nil)
	_ sdk.Renderer        = (*Deployer)(nil)
	_ sdk.Validator       = (*Deployer)(nil)
	_ sdk.Watcher         = (*Deployer)(nil)
)

// New returns a deployer with default settings; the error is about the folder for charts.
func New(options Options) (*Deployer, error) {
	d := &Deployer{options: options, targets: target.NewCache(options.UserAgent, options.Targets...), watches: watch.New()}
	return d, d.use(settings.Default())
}

func (d *Deployer) use(s settings.Settings) error {
	charts, err := chartsource.New(chartsource.Config{
		Config: fetch.Config{
			Dir: d.options.CacheDir, MaxBytes: s.ChartCache.Size.Bytes, MaxAge: s.ChartCache.MaxAge.Duration,
			Registries: s.Registries, UserAgent: d.options.UserAgent, Clock: d.options.Clock,
		},
		ArchiveBytes: s.Limits.Archive.Bytes, Resolvers: d.options.Resolvers,
	})
	if err != nil {
		return err
	}
	if d.charts != nil {
		// Nothing is under way yet: a plugin is configured before its first call.
		err = d.charts.Close()
	}
	d.settings, d.charts = s, charts
	d.helm = d.options.Helm(s.Workers, d.options.Log)
	return err
}

// Configure implements sdk.Configurer.
func (d *Deployer) Configure(_ context.Context, req *sdk.ConfigureRequest) (*sdk.ConfigureResponse, error) {
	s, problems := settings.Load(req.Document)
	if len(problems) > 0 {
		return &sdk.ConfigureResponse{Problems: problems}, nil
	}
	return &sdk.ConfigureResponse{MaxCalls: s.Workers}, d.use(s) // each call may need a process
}

// Watch implements sdk.Watcher.
func (d *Deployer) Watch(ctx context.Context, wake func(namespace, name string)) error {
	return d.watches.Run(ctx, wake)
}

// Hooks implements sdk.Hooker: a finished item with a schedule gets a new job when it is due.
func (d *Deployer) Hooks() hook.Hooks {
	return hook.Hooks{}.RegisterHookSetup(continuousreconcile.Setup(continuousreconcile.FromSpec(config.ScheduleOf)))
}

// Validate implements sdk.Validator. It needs neither the chart nor a target, so it does not check the values against
// the chart.
func (d *Deployer) Validate(_ context.Context, req *sdk.ValidateRequest) (*sdk.ValidateResponse, error) {
	problems, err := config.Problems(req.Config, d.settings.Strict)
	return &sdk.ValidateResponse{Problems: problems}, err
}

// Reconcile deploys the chart, and waits until all objects are ready and the exports can be read.
func (d *Deployer) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return d.reconcile(ctx, req, false)
}

// ForceReconcile is Reconcile, but makes a new revision of a release although nothing has changed.
func (d *Deployer) ForceReconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return d.reconcile(ctx, req, true)
}

func (d *Deployer) reconcile(ctx context.Context, req *sdk.Request, force bool) (*sdk.Response, error) {
	ctx = target.WithPermission(target.WithBreaker(ctx), req.PickUp)
	c, err := config.Read(req, d.settings.Strict)
	if err != nil {
		return nil, err
	}
	j, err := d.begin(ctx, req, c.Release.Namespace)
	if err != nil {
		return nil, err
	}
	j.ignored = c.IgnoreDifferences
	j.warnOf(c)
	if err := j.checkMode(ctx, c); err != nil {
		return nil, err
	}
	if !c.HelmDeployment {
		return j.reconcileObjects(ctx, c)
	}
	archive, err := j.fetch(ctx, c.Source)
	if err != nil {
		return nil, err
	}
	defer archive.Release()
	if j.chart != nil && j.chart.Digest == archive.Digest {
		same := *j.chart                    // see document
		same.Resource = resourceOf(archive) // another version of the component may have the same chart
		j.chart = &same
	}
	return j.reconcileRelease(ctx, c, archive, force)
}

// Delete uninstalls the release, or deletes the objects of the chart, and waits until they are gone.
func (d *Deployer) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	ctx = target.WithBreaker(ctx)
	stored, err := readStatus(req)
	if err != nil {
		return nil, err
	}
	known := stored.Kind != ""
	rendering := stored.Chart != nil && stored.Chart.Rendering != nil
	if known && stored.Release == nil && len(stored.ManagedResources) == 0 && !rendering && !isOfLandscaper(stored) {
		return nil, nil //nolint:nilnil // the job is done, see sdk.Deployer
	}
	deletion, err := config.ReadDeletion(req, d.settings.Strict)
	switch {
	case !known && (err != nil || !deletion.HelmDeployment || deletion.Release == (helm.Release{})):
		tellUnknown(req, "its configuration names no release")
		return nil, nil //nolint:nilnil,nilerr // see above; a configuration that names none is told
	case err != nil:
		return nil, err
	}
	j, err := d.begin(ctx, req, deletion.Release.Namespace)
	if err != nil {
		return nil, target.WithWaysOut(err)
	}
	j.dropRendering(ctx)
	res, err := j.delete(ctx, deletion)
	if res != nil || err != nil {
		return res, target.WithWaysOut(err)
	}
	return j.Done(nil), nil
}

// begin returns the job of one call. namespace is that of the release.
func (d *Deployer) begin(ctx context.Context, req *sdk.Request, namespace string) (*helmJob, error) {
	stored, err := readStatus(req)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := req.Target.Kubeconfig()
	if err != nil {
		return nil, err
	}
	client, lookup, err := job.Connect(req, d.targets)
	if err != nil {
		return nil, err
	}
	j := &helmJob{deployer: d, kubeconfig: kubeconfig, stored: stored, release: stored.Release, chart: stored.Chart}
	j.Job = &job.Job{
		Request: req, Client: client, Lookup: lookup, Watches: d.watches, Began: time.Now(),
		Owner: owner.New(req, v1alpha1.DeployItemLabel, stored.Installation),
		Status: job.NewProviderStatus(req, job.ObjectsStatus{
			ManagedResources: stored.ManagedResources, Cluster: stored.Cluster, Installation: stored.Installation,
			Drift: stored.Drift, SettledIn: stored.SettledIn,
		}, false, j.document),
	}
	return j, j.Begin(ctx, namespace)
}
