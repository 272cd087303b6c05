// Package helmjob is one call of the helm deployer: a job on objects with a chart, Helm in its own processes, and the
// record of a chart and a release in the provider status. Packages releasejob and chartjob carry the call out, with a
// release and without.
package helmjob

import (
	"context"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/settings"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// reasonIgnored is the reason of the event about fields without effect.
const reasonIgnored = "IgnoredField"

// Tools are shared by all calls of a deployer.
type Tools struct {
	Settings settings.Settings
	Targets  *target.Cache
	Charts   *chartsource.Fetcher
	Helm     helm.Helm
	Watches  *watch.Set
}

// Job is one call of the deployer. Its methods are steps, as in objectjob.Job.
type Job struct {
	*objectjob.Job

	// Record is the part of the provider status about the chart and the release.
	Record Record
	// Ignored has the fields of objects owned by other clients.
	Ignored ignore.Rules
	// ChartWarning is Helm's warning in this call; empty for none.
	ChartWarning string

	tools      *Tools
	kubeconfig []byte
}

// Begin returns the job of one call. namespace is that of the release.
func (t *Tools) Begin(ctx context.Context, req *sdk.Request, namespace string) (*Job, error) {
	record, err := ReadRecord(req)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := req.Target.Kubeconfig()
	if err != nil {
		return nil, err
	}
	client, lookup, err := job.Connect(req, t.Targets)
	if err != nil {
		return nil, err
	}
	j := &Job{Record: record, tools: t, kubeconfig: kubeconfig}
	stored := record.Stored
	status := objectjob.NewProviderStatus(req, objectjob.ObjectsStatus{
		ManagedResources: stored.ManagedResources, Cluster: stored.Cluster, Installation: stored.Installation,
		Drift: stored.Drift, SettledIn: stored.SettledIn,
	}, false, j.Record.document)
	j.Job = &objectjob.Job{
		Job: job.New(req, t.Watches, status), Client: client, Lookup: lookup, Status: status, Began: time.Now(),
		Owner: owner.New(req, v1alpha1.DeployItemLabel, stored.Installation),
	}
	return j, j.Begin(ctx, namespace)
}

// Strict reports whether unknown fields of objects are errors.
func (j *Job) Strict() bool { return j.tools.Settings.Strict }

// ItemLabel returns the deploy item as the value of its label.
func (j *Job) ItemLabel() string { return j.Owner.Labels()[owner.Label] }

// WarnOfFields reports the fields of the provider configuration without effect.
func (j *Job) WarnOfFields(c *config.Config) {
	j.WarnOf(c.Unknown)
	if len(c.Ignored) > 0 && j.First() {
		j.Request.Warning(reasonIgnored, "spec.config: without effect: "+object.Enumerate(c.Ignored, "; ", job.MaxListed))
	}
}
