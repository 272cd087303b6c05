package helmjob

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/sdk"
)

// The steps of a job beside those of package objectjob, for its progress and errors.
const (
	StepChart  = "ReadChart"
	StepRender = "Render"
)

// reasonTemplate is the reason of the event about templates without an object.
const reasonTemplate = "IgnoredTemplate"

// Fetch returns the chart. The caller releases it.
func (j *Job) Fetch(ctx context.Context, source chartsource.Source) (*chartsource.Archive, error) {
	j.Request.Progress(StepChart, fmt.Sprintf("reading the chart: %s", source))
	archive, err := j.tools.Charts.Fetch(ctx, &chartsource.Request{
		Source: source, Credentials: j.Request.Credentials, DeployItem: j.Request.DeployItem,
		Context: j.Request.Context, OCMConfig: j.Request.OCMConfig, Log: j.Request.Log, Warning: j.Request.Warning,
	})
	if err != nil {
		return nil, job.During(StepChart, err)
	}
	return archive, nil
}

// Render renders the objects of the chart for a revision of the release, or with revision zero for no release. Without
// a release the objects of its hooks are ordinary objects.
func (j *Job) Render(
	ctx context.Context, c *config.Config, archive *chartsource.Archive, revision int,
) (*helm.Result, error) {
	j.Request.Progress(StepRender, "rendering the chart")
	options := c.Install
	if revision > 1 {
		options = c.Upgrade
	}
	result, err := j.Run(ctx, StepRender, &helm.Request{
		Action: helm.Render, Release: c.Release, Chart: helm.Chart{Path: archive.Path}, Values: c.Values,
		Revision: revision, Options: options,
	}, Events{})
	if err != nil {
		return nil, err
	}
	if len(result.Ignored) > 0 && j.First() {
		j.Request.Warning(reasonTemplate,
			"what these templates render is no object, and left out: "+object.Enumerate(result.Ignored, ", ", job.MaxListed))
	}
	for _, h := range result.Hooks {
		if !c.HelmDeployment && runsAtDeployment(h) {
			result.Objects = append(result.Objects, h.Object)
		}
	}
	return result, nil
}

// runsAtDeployment reports whether Helm would create a hook's object at an installation or upgrade of a release. An
// object only for a deletion, a rollback or a test would do harm.
func runsAtDeployment(h helm.Hook) bool {
	return slices.ContainsFunc(h.Events, func(event string) bool {
		return slices.Contains([]string{"pre-install", "post-install", "pre-upgrade", "post-upgrade"}, event)
	})
}

// Values returns the chart's metadata and the values of a rendering.
func (j *Job) Values(
	ctx context.Context, step string, c *config.Config, archive *chartsource.Archive,
) (*helm.Result, error) {
	return j.Run(ctx, step, &helm.Request{
		Action: helm.Values, Release: c.Release, Chart: helm.Chart{Path: archive.Path}, Values: c.Values,
		Options: c.Install,
	}, Events{})
}

// CheckAndExport waits for the readiness of the objects, and reads the exports. Without an archive it fetches the chart
// if an export needs it.
func (j *Job) CheckAndExport(
	ctx context.Context, c *config.Config, archive *chartsource.Archive, applied []apply.Applied,
) (exports map[string]any, res *sdk.Response, err error) {
	if res, err := j.CheckReadiness(ctx, c.Checks, applied); res != nil || err != nil {
		return nil, res, err
	}
	exports, res, err = j.ReadExports(ctx, c.Exports, applied)
	if res != nil || err != nil {
		return nil, res, err
	}
	if exports, err = j.exportValues(ctx, c, archive, exports); err != nil {
		return nil, j.End(), err
	}
	return exports, nil, nil
}

// DiffExports returns the change of a job that would fail over the exports from the chart's values; none otherwise.
func (j *Job) DiffExports(
	ctx context.Context, c *config.Config, archive *chartsource.Archive,
) ([]sdk.Change, error) {
	_, err := j.exportValues(ctx, c, archive, nil)
	if refused := (*sdk.Error)(nil); errors.As(err, &refused) && refused.Reason == config.ReasonExportMissing {
		return []sdk.Change{{
			Object: "Exports of " + c.Release.String(), Action: sdk.ActionFail, Note: refused.Err.Error(),
		}}, nil
	}
	return nil, err
}

// exportValues adds the exports from the values of the rendering.
func (j *Job) exportValues(
	ctx context.Context, c *config.Config, archive *chartsource.Archive, exports map[string]any,
) (map[string]any, error) {
	if len(c.ValueExports) == 0 {
		return exports, nil
	}
	if archive == nil {
		fetched, err := j.Fetch(ctx, c.Source)
		if err != nil {
			return nil, err
		}
		defer fetched.Release()
		archive = fetched
	}
	result, err := j.Values(ctx, objectjob.StepExport, c, archive)
	if err != nil {
		return nil, err
	}
	exports, err = config.ExportValues(c.ValueExports, result.Values, exports)
	if err != nil {
		return nil, job.During(objectjob.StepExport, err)
	}
	return exports, nil
}
