// Package deployer is the deployer of plain Kubernetes manifests. It puts the parts of plugins/internal, shared with
// other deployers, together.
package deployer

import (
	"context"
	"time"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/objectconfig"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/config"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/settings"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
)

// Deployer deploys plain Kubernetes manifests. Between calls it keeps clients of targets, and watches the objects its
// deploy items wait for; both are for speed alone.
type Deployer struct {
	settings settings.Settings
	targets  *target.Cache
	watches  *watch.Set
}

var (
	_ sdk.Deployer      = (*Deployer)(nil)
	_ sdk.Configurer    = (*Deployer)(nil)
	_ sdk.Differ        = (*Deployer)(nil)
	_ sdk.HealthChecker = (*Deployer)(nil)
	_ sdk.Hooker        = (*Deployer)(nil)
	_ sdk.Renderer      = (*Deployer)(nil)
	_ sdk.Validator     = (*Deployer)(nil)
	_ sdk.Watcher       = (*Deployer)(nil)
)

// New returns a deployer. userAgent is its name for API servers; options are for its clients.
func New(userAgent string, options ...target.Option) *Deployer {
	return &Deployer{
		settings: settings.Default(), targets: target.NewCache(userAgent, options...), watches: watch.New(),
	}
}

// Configure implements sdk.Configurer.
func (d *Deployer) Configure(_ context.Context, req *sdk.ConfigureRequest) (*sdk.ConfigureResponse, error) {
	s, problems := settings.Load(req.Document)
	if len(problems) == 0 {
		d.settings = s
	}
	return &sdk.ConfigureResponse{Problems: problems}, nil
}

// Watch implements sdk.Watcher.
func (d *Deployer) Watch(ctx context.Context, req *sdk.WatchRequest) error {
	return d.watches.Run(ctx, req.Wake)
}

// Reconcile applies the manifests, deletes the objects no longer among them, and waits until all are ready and the
// exports are readable.
func (d *Deployer) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	ctx = apiserver.WithPermission(apiserver.WithBreaker(ctx), req.PickUp)
	c, err := d.readConfig(req)
	if err != nil {
		return nil, err
	}
	ctx = objectjob.HideSecrets(ctx, c.Manifests)
	j, err := d.begin(ctx, req)
	if err != nil {
		return nil, err
	}
	j.WarnOf(c.Unknown)
	plan, err := apply.NewPlan(ctx, j.Client, c.Manifests, j.Owner, j.Began)
	if err != nil {
		return nil, job.During(objectjob.StepApply, err)
	}
	plan.AwaitServers = c.Checks.ByKind()

	deletion := prune.Deletion{Groups: c.DeletionDuringUpdate}
	applied, res, err := j.Apply(objectjob.WithFields(ctx, d.settings.Strict), plan)
	if err != nil {
		return j.Unblock(ctx, plan, deletion, err)
	}
	if res != nil {
		return res, nil
	}
	res, err = j.CleanUp(ctx, plan, applied, deletion)
	if res != nil || err != nil {
		return res, err
	}
	if res, err := j.CheckReadiness(ctx, c.Checks, applied); res != nil || err != nil {
		return res, err
	}
	exports, res, err := j.ReadExports(ctx, c.Exports, applied)
	if res != nil || err != nil {
		return res, err
	}
	if res, err := j.Patch(objectjob.WithFields(ctx, d.settings.Strict), applied); res != nil || err != nil {
		return res, err
	}
	return j.Done(exports), nil
}

// Delete deletes the managed objects and waits until they are gone.
func (d *Deployer) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	ctx = apiserver.WithBreaker(ctx)
	status, err := readProviderStatus(req)
	if err != nil {
		return nil, err
	}
	if req.DeployItem.Status.ProviderStatus == nil {
		return d.deleteUnrecorded(ctx, req)
	}
	if len(status.Inventory.Entries()) == 0 {
		return nil, nil //nolint:nilnil // the job is done, see sdk.Deployer
	}
	groups, err := objectconfig.ReadDeletionGroups(req, d.settings.Strict)
	if err != nil {
		return nil, err
	}
	j, err := d.begin(ctx, req)
	if err != nil {
		return nil, target.WithWaysOut(err)
	}
	res, err := j.Remove(ctx, objectjob.StepDelete, prune.Deletion{Groups: groups, Entries: j.Status.Inventory.Entries()})
	if res != nil || err != nil {
		return res, target.WithWaysOut(err)
	}
	return j.Done(nil), nil
}

// Diff implements sdk.Differ.
func (d *Deployer) Diff(ctx context.Context, req *sdk.Request) (*sdk.DiffResponse, error) {
	ctx = apiserver.WithBreaker(ctx)
	c, err := d.readConfig(req)
	if err != nil {
		return nil, err
	}
	ctx = objectjob.HideSecrets(ctx, c.Manifests)
	j, err := d.begin(ctx, req)
	if err != nil {
		return nil, err
	}
	plan, err := apply.NewPlan(ctx, j.Client, c.Manifests, j.Owner, j.Began)
	if err != nil {
		return nil, job.During(objectjob.StepApply, err)
	}
	deletion := prune.Deletion{Groups: c.DeletionDuringUpdate}
	changes, err := j.Diff(objectjob.WithFields(ctx, d.settings.Strict), plan, deletion, c.Checks)
	if err != nil {
		return nil, err
	}
	return &sdk.DiffResponse{Changes: changes}, nil
}

// CheckHealth implements sdk.HealthChecker.
func (d *Deployer) CheckHealth(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	ctx = apiserver.WithBreaker(ctx)
	c, err := d.readConfig(req)
	if err != nil {
		return nil, err
	}
	j, err := d.begin(ctx, req)
	if err != nil {
		return nil, err
	}
	return j.CheckHealth(ctx, c.Checks, watch.OfItems)
}

// Validate implements sdk.Validator.
func (d *Deployer) Validate(_ context.Context, req *sdk.Request) (*sdk.ValidateResponse, error) {
	_, err := config.Read(req, d.settings.Strict)
	return nil, err // a configuration with problems
}

// Hooks implements sdk.Hooker: a finished item with a schedule gets a new job when it is due.
func (d *Deployer) Hooks() hook.Hooks {
	return hook.Hooks{}.RegisterHookSetup(continuousreconcile.Setup(continuousreconcile.FromSpec(config.ScheduleOf)))
}

// readConfig returns the provider configuration. If the request has children, its objects are theirs.
func (d *Deployer) readConfig(req *sdk.Request) (*config.Config, error) {
	c, err := config.Read(req, d.settings.Strict)
	if err != nil || req.Children == nil {
		return c, err
	}
	manifests, problems := objectjob.Replace(c.Manifests, req.Children)
	if len(problems) > 0 {
		return nil, sdk.ConfigurationError(objectjob.ReasonChildren,
			"changed objects do not fit spec.config: %s", providerconfig.Describe(problems))
	}
	c.Manifests = manifests
	return c, nil
}

// begin returns the Job of one call.
func (d *Deployer) begin(ctx context.Context, req *sdk.Request) (*objectjob.Job, error) {
	status, err := readProviderStatus(req)
	if err != nil {
		return nil, err
	}
	client, lookup, err := job.Connect(req, d.targets)
	if err != nil {
		return nil, err
	}
	j := &objectjob.Job{
		Job: job.New(req, d.watches, status), Client: client, Lookup: lookup, Status: status,
		Owner: owner.New(req, v1alpha2.DeployItemLabel, status.Installation()), Began: time.Now(),
	}
	return j, j.Begin(ctx, "")
}
