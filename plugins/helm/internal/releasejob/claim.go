package releasejob

import (
	"context"
	"errors"
	"fmt"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helmjob"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// claimOn is the text by which the items with a claim to a release and its holder find each other.
func claimOn(name helm.Release, chart string) string {
	return fmt.Sprintf("release %s of chart %s", name, chart)
}

// claim returns the claim of the item to the release of another one. The holder may hand the release over before the
// next job, so the release is recorded. An item with a former release, or a chart that cannot be read, has no claim.
func (d *Deployment) claim(ctx context.Context) string {
	result, err := d.Values(ctx, helmjob.StepChart, d.config, d.archive)
	if err != nil || d.former() != nil {
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

// handOver makes the release that of the heir, and forgets it.
func (r *Release) handOver(ctx context.Context, history []release.Revision, want release.Want, why string) error {
	if err := r.Request.PickUp(ctx); err != nil {
		return err
	}
	if err := release.HandOver(ctx, r.Client, r.name, history, want); err != nil {
		return job.During(stepUninstall, err)
	}
	r.leaveIt(why)
	return nil
}
