package deployer

import (
	"context"
	"errors"
	"fmt"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// The steps of a job beside those of package job, for its progress and errors.
const (
	stepChart     = "ReadChart"
	stepRender    = "Render"
	stepInstall   = "Install"
	stepUpgrade   = "Upgrade"
	stepUninstall = "Uninstall"
	stepRelease   = "ReadRelease"
)

// The reasons of events and errors.
const (
	reasonIgnored     = "IgnoredField"
	reasonTemplate    = "IgnoredTemplate"
	reasonModeChanged = "HelmDeploymentChanged"
)

// maxListed bounds the names in a message.
const maxListed = 5

// helmJob is one call of the deployer. Its methods are the steps, as in job.Job.
type helmJob struct {
	*job.Job

	deployer   *Deployer
	kubeconfig []byte
	// stored is the provider status at the beginning of the call.
	stored *v1alpha1.ProviderStatus
	// release and chart are the state to save.
	release *v1alpha1.ReleaseStatus
	chart   *v1alpha1.ChartStatus
	// found: this call has found the release up to date.
	found bool
	// ignored has the fields of objects owned by other clients.
	ignored ignore.Rules
	// disowned has the objects reported as others' by this call.
	disowned map[object.Key]bool
	// chartWarning is Helm's warning in this call.
	chartWarning string
	// keptFor is the job of the rendering in chart.Rendering, as far as this call has seen.
	keptFor string
}

// warnOf reports the fields of the provider configuration without effect.
func (j *helmJob) warnOf(c *config.Config) {
	j.WarnOf(c.Unknown)
	if len(c.Ignored) > 0 && j.First() {
		j.Request.Warning(reasonIgnored, "spec.config: without effect: "+object.Enumerate(c.Ignored, "; ", maxListed))
	}
}

// checkMode refuses to go from releases to objects or back: it would leave the release or the objects behind, or take
// those of another owner.
func (j *helmJob) checkMode(ctx context.Context, c *config.Config) error {
	if !c.HelmDeployment && j.release != nil {
		history, err := release.History(ctx, j.Client, releaseOf(j.release))
		if err != nil {
			return job.During(stepRelease, err)
		}
		if release.Of(history, j.wantOf(releaseOf(j.release))) != owner.Ours && j.release.Revision == 0 {
			j.forgetRelease() // never created
		}
	}
	switch {
	case !c.HelmDeployment && j.release != nil:
		return sdk.ConfigurationError(reasonModeChanged, "spec.config: helmDeployment: expected true, "+
			"since the deploy item has made the release %s, but found false; delete the deploy item and create it anew",
			nameOf(releaseOf(j.release)))
	case c.HelmDeployment && j.release == nil && len(j.stored.ManagedResources) > 0 && !j.fromLandscaper():
		return sdk.ConfigurationError(reasonModeChanged, "spec.config: helmDeployment: expected false, "+
			"since the deploy item has applied objects without a release of Helm, but found true; delete the deploy item and create it anew")
	default:
		return nil
	}
}

// fromLandscaper reports whether Landscaper's deployer wrote the provider status. That one does not record whether
// there is a release, and records nothing at all of one without objects of the kinds it waits for. Pergola always
// records a release or a chart.
func (j *helmJob) fromLandscaper() bool { return isOfLandscaper(j.stored) }

func isOfLandscaper(stored *v1alpha1.ProviderStatus) bool {
	return stored.Kind != "" && stored.Release == nil && stored.Chart == nil
}

// forgetRelease records that there is no release any more, in a status unlike Landscaper's.
func (j *helmJob) forgetRelease() {
	j.release = nil
	if j.chart == nil {
		j.chart = &v1alpha1.ChartStatus{}
	}
}

func (j *helmJob) fetch(ctx context.Context, source chartsource.Source) (*chartsource.Archive, error) {
	j.Request.Progress(stepChart, fmt.Sprintf("reading the chart: %s", source))
	archive, err := j.deployer.charts.Fetch(ctx, &chartsource.Request{
		Source: source, Credentials: j.Request.Credentials, DeployItem: j.Request.DeployItem,
		Context: j.Request.Context, OCMConfig: j.Request.OCMConfig, Log: j.Request.Log, Warning: j.Request.Warning,
	})
	if err != nil {
		return nil, job.During(stepChart, err)
	}
	return archive, nil
}

// run has Helm carry a request out, and adds its common fields.
func (j *helmJob) run(ctx context.Context, step string, req *helm.Request, o *observer) (*helm.Result, error) {
	limits := j.deployer.settings.Limits
	req.Kubeconfig, req.MaxHistory, req.Ignored = j.kubeconfig, j.deployer.settings.MaxHistory, j.ignored
	req.Limits = helm.Limits{
		UnpackedBytes: limits.Unpacked.Bytes, Files: limits.Files, Depth: limits.SubchartDepth,
		RenderedBytes: limits.Rendered.Bytes, RenderTime: limits.RenderTime.Duration, MemoryBytes: limits.Memory.Bytes,
	}
	o.job, o.step = j, step
	result, err := j.deployer.helm.Run(ctx, req, o)
	var failure *helm.Error
	switch {
	case err == nil:
		return result, nil
	case o.err != nil:
		return nil, job.During(step, o.err)
	case errors.As(err, &failure):
		return nil, explain(step, j.Client.Host, failure)
	default:
		return nil, job.During(step, err)
	}
}

func releaseOf(r *v1alpha1.ReleaseStatus) helm.Release {
	return helm.Release{Namespace: r.Namespace, Name: r.Name}
}

func nameOf(r helm.Release) string { return fmt.Sprintf("%s/%s", r.Namespace, r.Name) }
