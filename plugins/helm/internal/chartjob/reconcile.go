// Package chartjob carries out a call of the helm deployer without a release: the objects of the chart are applied and
// deleted as in the manifest deployer.
//
// A chart is rendered once per job: random texts, the time and lookups differ in each rendering. The first call keeps
// the objects in a Secret on the target until all of them are applied; from then on the inventory names them.
package chartjob

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartobject"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helmjob"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/completion"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/redact"
)

// Job is a call for the objects of a chart.
type Job struct {
	*helmjob.Job

	config *config.Config
}

// New returns the call for a configuration.
func New(j *helmjob.Job, c *config.Config) *Job { return &Job{Job: j, config: c} }

// Reconcile applies the objects of the chart, deletes those it has no more, and waits for the rest.
func (j *Job) Reconcile(ctx context.Context) (*sdk.Response, error) {
	kept := &rendering{job: j.Job, namespace: j.config.Release.Namespace}
	objects, err := j.objects(ctx, kept)
	if err != nil {
		return j.End(), err
	}
	res, err := j.deploy(ctx, objects, kept)
	if isOver := err == nil && res.InProgress == nil || len(sdk.Codes(err)) > 0; isOver && res != nil {
		DropRendering(ctx, j.Job)
		res.ProviderStatus = j.Status.Unsaved()
	}
	return res, redactorOf(j.config, objects).HideError(err)
}

// objects returns the objects of the job: those of an earlier call, or else of a new rendering.
func (j *Job) objects(ctx context.Context, kept *rendering) ([]helm.Object, error) {
	if chart := j.Record.Chart; chart != nil && chart.AppliedIn == j.Request.JobID {
		return chartobject.Names(j.Status.Settled())
	}
	if objects, err := kept.read(ctx); err != nil || objects != nil {
		return objects, err
	}
	archive, err := j.Fetch(ctx, j.config.Source)
	if err != nil {
		return nil, err
	}
	defer archive.Release()
	result, err := j.Render(ctx, j.config, archive, 0)
	if err != nil {
		return nil, err
	}
	before := j.Record.Chart
	j.Record.NoteChart(result.Chart, archive)
	if before != nil {
		j.Record.Chart.Rendering = before.Rendering // it exists until its deletion
	}
	return j.objectsOf(result)
}

// objectsOf returns the objects of a rendering, with the children of an HTTP hook in their places.
func (j *Job) objectsOf(result *helm.Result) ([]helm.Object, error) {
	objects, err := chartobject.Replace(result.Objects, j.Request.Children)
	if err != nil {
		return nil, job.During(helmjob.StepRender, err)
	}
	return slices.Concat(result.Definitions, objects), nil
}

func (j *Job) deploy(ctx context.Context, objects []helm.Object, kept *rendering) (*sdk.Response, error) {
	plan, err := j.plan(ctx, objects)
	if err != nil {
		return nil, job.During(objectjob.StepApply, err)
	}
	plan.AwaitServers = j.config.Checks.ByKind()
	applied, res, err := j.Apply(objectjob.WithFields(ctx, j.Strict()), plan)
	if res != nil && len(sdk.Codes(err)) == 0 { // there is another call
		kept.keep(ctx, objects)
		res.ProviderStatus = j.Status.Unsaved()
	}
	if err != nil {
		return j.Unblock(ctx, plan, j.cleanUp(), err)
	}
	if res != nil {
		return res, nil
	}
	j.noteAllApplied(ctx, applied, objects, kept)
	if res, err := j.CleanUp(ctx, plan, applied, j.cleanUp()); res != nil || err != nil {
		return res, err
	}
	exports, res, err := j.CheckAndExport(ctx, j.config, nil, applied)
	if res != nil || err != nil {
		return res, err
	}
	done := *j.Record.Chart
	done.AppliedIn = "" // the status of an unchanged item stays the same
	j.Record.Chart = &done
	return j.Done(exports), nil
}

// noteAllApplied records that the job has applied all objects. The rendering of an object with its own deletion is
// still needed: readiness checks select the object by its labels.
func (j *Job) noteAllApplied(ctx context.Context, applied []apply.Applied, objects []helm.Object, kept *rendering) {
	if slices.ContainsFunc(applied, func(a apply.Applied) bool { return completion.NeedNotStay(a.Live) }) {
		kept.keep(ctx, objects)
		return
	}
	next := *j.Record.Chart
	next.AppliedIn = j.Request.JobID
	j.Record.Chart = &next
	DropRendering(ctx, j.Job)
}

// cleanUp is the deletion of the objects dropped by the chart. Helm has deleted none of them, so the policy in the
// chart counts as well as the annotation on the target.
func (j *Job) cleanUp() prune.Deletion {
	return prune.Deletion{
		Groups: j.config.DeletionDuringUpdate,
		Kept: func(entry managedresource.ManagedResourceStatus, live metav1.Object) (why string) {
			if why := chartobject.KeptByPolicy(entry, live); why != "" {
				return why
			}
			return chartobject.KeptByAnnotation(entry, live)
		},
	}
}

// redactorOf returns a redactor of values in errors from outside of Helm.
func redactorOf(c *config.Config, objects []helm.Object) *redact.Redactor {
	s := helm.Hiding(c.Values, c.Release)
	for _, o := range objects {
		s.LearnObject(o.JSON)
		s.Publish(o.Source)
	}
	return s
}

// Delete deletes the objects, and waits until they are gone.
func Delete(ctx context.Context, j *helmjob.Job, groups prune.Groups) (*sdk.Response, error) {
	return j.Remove(ctx, objectjob.StepDelete, prune.Deletion{Groups: groups, Entries: j.Status.Inventory.Entries()})
}

// Diff returns the changes Reconcile would make.
func (j *Job) Diff(ctx context.Context, archive *chartsource.Archive) ([]sdk.Change, error) {
	result, err := j.Render(ctx, j.config, archive, 0)
	if err != nil {
		return nil, err
	}
	objects, err := j.objectsOf(result)
	if err != nil {
		return nil, err
	}
	changes, err := j.diff(ctx, objects)
	if err != nil {
		return nil, redactorOf(j.config, objects).HideError(err)
	}
	return changes, nil
}

func (j *Job) diff(ctx context.Context, objects []helm.Object) ([]sdk.Change, error) {
	plan, err := j.plan(ctx, objects)
	if err != nil {
		return nil, job.During(objectjob.StepApply, err)
	}
	return j.Job.Diff(objectjob.WithFields(ctx, j.Strict()), plan, j.cleanUp(), j.config.Checks)
}
