package helmjob

import (
	"context"
	"errors"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
)

// Events are the reports of Helm with an answer of the caller.
type Events struct {
	// Rendered gets the objects before their creation; nil to take them as they are.
	Rendered func(ctx context.Context, objects []helm.Object) ([]helm.Object, error)
	// Found gets existing objects from others; nil to pass over them.
	Found func(ctx context.Context, found []helm.Found) error
}

// Run has Helm carry a request out, and adds its common fields.
func (j *Job) Run(ctx context.Context, step string, req *helm.Request, events Events) (*helm.Result, error) {
	limits := j.tools.Settings.Limits
	req.Kubeconfig, req.MaxHistory, req.Ignored = j.kubeconfig, j.tools.Settings.MaxHistory, j.Ignored
	req.Limits = helm.Limits{
		UnpackedBytes: limits.Unpacked.Bytes, Files: limits.Files, Depth: limits.SubchartDepth,
		RenderedBytes: limits.Rendered.Bytes, RenderTime: limits.RenderTime.Duration, MemoryBytes: limits.Memory.Bytes,
	}
	o := &observer{rendered: events.Rendered, found: events.Found, job: j}
	result, err := j.tools.Helm.Run(ctx, req, o)
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
