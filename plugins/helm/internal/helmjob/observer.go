package helmjob

import (
	"context"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// observer receives Helm's reports about one request of a job.
type observer struct {
	// rendered gets the objects before their creation; nil to take them as they are.
	rendered func(ctx context.Context, objects []helm.Object) ([]helm.Object, error)

	// found gets existing objects from others; nil to pass over them.
	found func(ctx context.Context, found []helm.Found) error

	job *Job
	// err is the reason of the first refused change.
	err error
}

var _ helm.Observer = (*observer)(nil)

// Changing implements helm.Observer.
func (o *observer) Changing(ctx context.Context) error {
	return o.refused(o.job.Request.PickUp(ctx))
}

// Rendered implements helm.Observer.
func (o *observer) Rendered(ctx context.Context, objects []helm.Object) ([]helm.Object, error) {
	if o.rendered == nil {
		return objects, nil
	}
	out, err := o.rendered(ctx, objects)
	return out, o.refused(err)
}

// Found implements helm.Observer.
func (o *observer) Found(ctx context.Context, found []helm.Found) error {
	if o.found == nil {
		return nil
	}
	return o.refused(o.found(ctx, found))
}

// refused keeps an error for the job, since Helm passes on no more than its text.
func (o *observer) refused(err error) error {
	if o.err == nil {
		o.err = err
	}
	return err
}

// Progress implements helm.Observer.
func (o *observer) Progress(step, message string) { o.job.Request.Progress(step, message) }

// Warning implements helm.Observer.
func (o *observer) Warning(reason, message string) {
	if reason == helm.ReasonChart {
		if o.job.ChartWarning == message { // the chart was rendered before in this call
			return
		}
		o.job.ChartWarning = message
	}
	o.job.Request.Warning(reason, message)
}

// Log implements helm.Observer.
func (o *observer) Log(line string) { o.job.Request.Log.Debug("helm: " + line) }
