package releasejob

import (
	"context"
	"errors"
	"fmt"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helmjob"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// claimOn is the text by which the items with a claim to a release and its holder find each other.
func claimOn(name helm.Release, chart string) string {
	return fmt.Sprintf("release %s of chart %s", name, chart)
}

// blocked returns the reason against any operation on the release, as an error or a wait; nothing for none.
func (d *Deployment) blocked(ctx context.Context, decision release.Decision) (*sdk.Response, error) {
	switch decision.Action {
	case release.Conflict:
		err := sdk.ConfigurationError(reasonReleaseTaken, "release %s: %s", d.name, decision.Why)
		err.Heals = true
		if decision.HeldBy != "" {
			err.Held = sdk.Claim{DeployItem: decision.HeldBy, What: d.claim(ctx)}
		}
		return d.End(), job.During(stepRelease, err)
	case release.Wait:
		return d.Wait(stepRelease, "", []string{decision.Why}, nil), nil
	default:
		return nil, nil //nolint:nilnil // see objectjob.Job
	}
}

// claim returns the claim of the item to the release of another one. The holder may hand the release over before the
// next job, so the release is recorded. An item with a former release, or a chart that cannot be read, has no claim.
func (d *Deployment) claim(ctx context.Context) string {
	result, err := d.Values(ctx, helmjob.StepChart, d.config, d.archive)
	recorded := d.Record.ReleaseName()
	if err != nil || recorded != (helm.Release{}) && recorded != d.name {
		return "release " + d.name.String()
	}
	if d.Record.Release == nil {
		d.Record.Release = &v1alpha1.ReleaseStatus{Name: d.name.Name, Namespace: d.name.Namespace}
	}
	return claimOn(d.name, result.Chart.Name)
}

// heir returns the first item with a claim to the release and its chart, as the value of its label; empty for none.
func (r *Release) heir(ctx context.Context, history []release.Revision) (string, error) {
	if len(r.Request.Claims) == 0 || !release.Exists(history) {
		return "", nil
	}
	chart, err := release.ChartOf(ctx, r.Client, r.name, release.Newest(history).Version)
	if errors.Is(err, release.ErrUnreadable) {
		return "", nil
	}
	if err != nil {
		return "", job.During(stepUninstall, err)
	}
	for _, claim := range r.Request.Claims {
		if claim.What == claimOn(r.name, chart) {
			return claim.DeployItem, nil
		}
	}
	return "", nil
}

// handOver makes the release that of the heir.
func (r *Release) handOver(ctx context.Context, history []release.Revision, want release.Want) error {
	if err := r.Request.PickUp(ctx); err != nil {
		return err
	}
	if err := release.HandOver(ctx, r.Client, r.name, history, want); err != nil {
		return job.During(stepUninstall, err)
	}
	return nil
}
