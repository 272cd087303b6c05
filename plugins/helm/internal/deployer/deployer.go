// Package deployer is the deployer of Helm charts, with releases of Helm or without: the methods of the sdk, over the
// packages beside it and those of plugins/internal.
//
// # A job with a release (package releasejob)
//
// One request reads the revisions of the release. Their labels have a digest of the chart, the values and all else
// about the objects; with it the job compares the last one to the wanted one. If they are equal, and the objects
// unchanged since Helm wrote them, there is nothing to do. Otherwise Helm installs or upgrades, in a process of its
// own. It hands its objects over before it creates any: they are saved in the provider status first, and an HTTP hook
// may have changed them. Helm does not wait for them unless it has to, since it would occupy a worker of the host; the
// job waits between its calls, as in other deployers.
//
// # A job without a release (package chartjob)
//
// Helm renders the chart, and the objects are applied as in the manifest deployer.
package deployer

import (
	"context"
	"log/slog"

	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartjob"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartobject"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helmjob"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/releasejob"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/settings"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
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
	options Options
	tools   helmjob.Tools
}

var (
	_ sdk.Deployer        = (*Deployer)(nil)
	_ sdk.Configurer      = (*Deployer)(nil)
	_ sdk.Differ          = (*Deployer)(nil)
	_ sdk.ForceReconciler = (*Deployer)(nil)
	_ sdk.HealthChecker   = (*Deployer)(nil)
	_ sdk.Hooker          = (*Deployer)(nil)
	_ sdk.Renderer        = (*Deployer)(nil)
	_ sdk.Validator       = (*Deployer)(nil)
	_ sdk.Watcher         = (*Deployer)(nil)
)

// New returns a deployer with default settings; the error is about the folder for charts.
func New(options Options) (*Deployer, error) {
	d := &Deployer{options: options, tools: helmjob.Tools{
		Targets: target.NewCache(options.UserAgent, options.Targets...), Watches: watch.New(),
	}}
	return d, d.use(settings.Default())
}

func (d *Deployer) use(s settings.Settings) error {
	runner := d.options.Helm(s.Workers, d.options.Log)
	charts, err := chartsource.New(chartsource.Config{
		Config: fetch.Config{
			Dir: d.options.CacheDir, MaxBytes: s.ChartCache.Size.Bytes, MaxAge: s.ChartCache.MaxAge.Duration,
			Registries: s.Registries, UserAgent: d.options.UserAgent, Clock: d.options.Clock,
		},
		ArchiveBytes: s.Limits.Archive.Bytes, Resolvers: d.options.Resolvers, Helm: runner,
		Limits: helm.Limits{RenderTime: s.Limits.RenderTime.Duration, MemoryBytes: s.Limits.Memory.Bytes},
	})
	if err != nil {
		return err
	}
	if d.tools.Charts != nil {
		// Nothing is under way yet: a plugin is configured before its first call.
		err = d.tools.Charts.Close()
	}
	d.tools.Settings, d.tools.Charts, d.tools.Helm = s, charts, runner
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
func (d *Deployer) Watch(ctx context.Context, req *sdk.WatchRequest) error {
	return d.tools.Watches.Run(ctx, req.Wake)
}

// Hooks implements sdk.Hooker: a finished item with a schedule gets a new job when it is due.
func (d *Deployer) Hooks() hook.Hooks {
	return hook.Hooks{}.RegisterHookSetup(continuousreconcile.Setup(continuousreconcile.FromSpec(config.ScheduleOf)))
}

// Validate implements sdk.Validator. It needs neither the chart nor a target, so it does not check the values against
// the chart.
func (d *Deployer) Validate(_ context.Context, req *sdk.Request) (*sdk.ValidateResponse, error) {
	_, err := config.Read(req, d.strict())
	return nil, err // a configuration with problems
}

// Reconcile deploys the chart, and waits until all objects are ready and the exports can be read.
func (d *Deployer) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return d.reconcile(ctx, req, req.Forced) // the revision may not be there yet
}

// ForceReconcile is Reconcile, but makes a new revision of a release although nothing has changed.
func (d *Deployer) ForceReconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return d.reconcile(ctx, req, true)
}

func (d *Deployer) reconcile(ctx context.Context, req *sdk.Request, force bool) (*sdk.Response, error) {
	ctx = apiserver.WithPermission(apiserver.WithBreaker(ctx), req.PickUp)
	c, j, err := d.begin(ctx, req)
	if err != nil {
		return nil, err
	}
	j.WarnOfFields(c)
	if err := checkMode(ctx, j, c); err != nil {
		return nil, err
	}
	if !c.HelmDeployment {
		return chartjob.New(j, c).Reconcile(ctx)
	}
	archive, err := j.Fetch(ctx, c.Source)
	if err != nil {
		return nil, err
	}
	defer archive.Release()
	j.Record.NoteResource(archive)
	return releasejob.New(j, c, archive).Reconcile(ctx, force)
}

// Diff implements sdk.Differ.
func (d *Deployer) Diff(ctx context.Context, req *sdk.Request) (*sdk.DiffResponse, error) {
	ctx = apiserver.WithBreaker(ctx)
	c, j, err := d.begin(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := checkMode(ctx, j, c); err != nil {
		return nil, err
	}
	archive, err := j.Fetch(ctx, c.Source)
	if err != nil {
		return nil, err
	}
	defer archive.Release()
	var changes []sdk.Change
	if c.HelmDeployment {
		changes, err = releasejob.New(j, c, archive).Diff(ctx)
	} else {
		changes, err = chartjob.New(j, c).Diff(ctx, archive)
	}
	if err == nil {
		var exports []sdk.Change
		exports, err = j.DiffExports(ctx, c, archive)
		changes = append(changes, exports...)
	}
	// Helm's warning comes first. A job without a release and without changes on the target has none.
	if j.ChartWarning != "" && (c.HelmDeployment || len(changes) > 0) {
		warned := sdk.Change{Object: "Chart of " + c.Release.String(), Action: sdk.ActionUpdate, Note: j.ChartWarning}
		changes = append([]sdk.Change{warned}, changes...)
	}
	return &sdk.DiffResponse{Changes: changes}, err
}

// CheckHealth implements sdk.HealthChecker, with a release and without: the record has the objects of both.
func (d *Deployer) CheckHealth(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	c, j, err := d.begin(apiserver.WithBreaker(ctx), req)
	if err != nil {
		return nil, err
	}
	group := watch.OfItems
	if c.HelmDeployment {
		group = watch.OfHelm
	}
	return j.CheckHealth(ctx, c.Checks, group)
}

// Render implements sdk.Renderer. The children are the objects of the chart's templates. With a release those of hooks
// are not among them, since Helm creates them by itself.
func (d *Deployer) Render(ctx context.Context, req *sdk.Request) (*sdk.RenderResponse, error) {
	ctx = apiserver.WithBreaker(ctx)
	c, j, err := d.begin(ctx, req)
	if err != nil {
		return nil, err
	}
	archive, err := j.Fetch(ctx, c.Source)
	if err != nil {
		return nil, err
	}
	defer archive.Release()
	revision := 0
	if c.HelmDeployment {
		if revision, err = releasejob.New(j, c, archive).RevisionToShow(ctx); err != nil {
			return nil, err
		}
	}
	result, err := j.Render(ctx, c, archive, revision)
	if err != nil {
		return nil, err
	}
	children, err := chartobject.Children(result.Objects)
	if err != nil {
		return nil, job.During(helmjob.StepRender, err)
	}
	return &sdk.RenderResponse{Children: children}, nil
}

// Delete uninstalls the release, or deletes the objects of the chart, and waits until they are gone.
func (d *Deployer) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	ctx = apiserver.WithBreaker(ctx)
	record, err := helmjob.ReadRecord(req)
	if err != nil {
		return nil, err
	}
	deployed := record.Deployed()
	if deployed == helmjob.Nothing {
		return nil, nil //nolint:nilnil // the job is done, see sdk.Deployer
	}
	deletion, err := config.ReadDeletion(req, d.strict())
	switch {
	case deployed == helmjob.Unrecorded &&
		(err != nil || !deletion.HelmDeployment || deletion.Release == (helm.Release{})):
		releasejob.TellUnrecorded(req, "its configuration names no release")
		return nil, nil //nolint:nilnil,nilerr // see above; a configuration that names none is told
	case err != nil:
		return nil, err
	}
	j, err := d.tools.Begin(ctx, req, deletion.Release.Namespace)
	if err != nil {
		return nil, target.WithWaysOut(err)
	}
	chartjob.DropRendering(ctx, j)
	res, err := deleteAll(ctx, j, deployed, deletion)
	if res != nil || err != nil {
		return res, target.WithWaysOut(err)
	}
	return j.Done(nil), nil
}

// deleteAll removes everything deployed by the item.
func deleteAll(
	ctx context.Context, j *helmjob.Job, deployed helmjob.Deployed, d *config.Deletion,
) (*sdk.Response, error) {
	switch {
	case deployed == helmjob.Unrecorded:
		return releasejob.Of(j, d.Release).UninstallUnrecorded(ctx, d.Uninstall)
	case deployed == helmjob.Release:
		return releasejob.Of(j, j.Record.ReleaseName()).Uninstall(ctx, d.Uninstall)
	case deployed == helmjob.ByLandscaper && d.HelmDeployment:
		return releasejob.Of(j, d.Release).Uninstall(ctx, d.Uninstall)
	default:
		return chartjob.Delete(ctx, j, d.Groups)
	}
}

// begin reads the provider configuration, and returns the job of one call.
func (d *Deployer) begin(ctx context.Context, req *sdk.Request) (*config.Config, *helmjob.Job, error) {
	c, err := config.Read(req, d.strict())
	if err != nil {
		return nil, nil, err
	}
	j, err := d.tools.Begin(ctx, req, c.Release.Namespace)
	if err != nil {
		return nil, nil, err
	}
	j.Ignored = c.IgnoreDifferences
	return c, j, nil
}

func (d *Deployer) strict() bool { return d.tools.Settings.Strict }

// reasonModeChanged is the reason of the error about a changed helmDeployment.
const reasonModeChanged = "HelmDeploymentChanged"

// checkMode refuses to go from releases to objects or back: it would leave the release or the objects behind, or take
// those of another owner.
func checkMode(ctx context.Context, j *helmjob.Job, c *config.Config) error {
	recorded := j.Record.Deployed()
	if !c.HelmDeployment && recorded == helmjob.Release {
		made, err := releasejob.Of(j, j.Record.ReleaseName()).IsMade(ctx)
		if err != nil {
			return err
		}
		if made {
			return sdk.ConfigurationError(reasonModeChanged, "spec.config: helmDeployment: expected true, "+
				"since the deploy item has made the release %s, but found false; "+
				"delete the deploy item and create it anew", j.Record.ReleaseName())
		}
		j.Record.ForgetRelease()
		j.Owner.ByRelease = false
	}
	if c.HelmDeployment && recorded == helmjob.Objects && len(j.Record.Stored.ManagedResources) > 0 {
		return sdk.ConfigurationError(reasonModeChanged, "spec.config: helmDeployment: expected false, "+
			"since the deploy item has applied objects without a release of Helm, but found true; "+
			"delete the deploy item and create it anew")
	}
	return nil
}
