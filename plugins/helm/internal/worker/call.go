package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// call is one request to a worker.
type call struct {
	req      *helm.Request
	observer helm.Observer
	process  *process
	// rendered is called once the chart was rendered.
	rendered func()
	// grace is how long the worker may take to stop.
	grace time.Duration
}

// errTooSlow is why the parent gives up a worker.
var errTooSlow = errors.New("the chart was not rendered in time")

// run carries the request out. It returns the worker's last message, which has a result then. When ctx has ended the
// process is about to end.
func (c *call) run(ctx context.Context) (*done, error) {
	dismiss := context.AfterFunc(ctx, func() {
		_ = c.process.to.Close() // asks it to stop; if it has ended, there is nobody to ask
		time.AfterFunc(c.grace, c.process.kill)
	})
	defer dismiss()
	last, err := c.follow(ctx)
	switch {
	case err == nil && last.Result != nil:
		return last, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s was stopped: %w", doing(c.req), causeOf(ctx))
	case err == nil:
		return nil, last.Err
	}
	c.process.end()
	if errors.Is(err, errTooSlow) {
		return nil, tooSlow(c.req, c.process.state.UserTime()+c.process.state.SystemTime()-c.process.busy)
	}
	return nil, verdict(c.req, c.process.state, c.process.stderr.text(), err)
}

// follow receives the worker's messages until the last one. The error is why there will be none.
func (c *call) follow(ctx context.Context) (*done, error) {
	// inTime tells whether the process has rendered, or ended, before it was killed for not doing so.
	inTime := sync.OnceValue(time.AfterFunc(c.req.Limits.RenderTime, c.process.kill).Stop)
	defer inTime()
	if c.req.Action == helm.Uninstall {
		inTime()
	}
	c.send(order{Request: c.req})
	for {
		var r report
		err := c.process.reports.Decode(&r)
		switch {
		case (err != nil || r.Rendered != nil || r.Done != nil) && !inTime():
			return nil, errTooSlow
		case err != nil:
			return nil, err
		case r.Changing:
			c.send(order{Answer: &answer{Refused: c.observer.Changing(ctx) != nil}}) // the observer keeps the error
		case r.Rendered != nil:
			c.rendered()
			c.send(order{Answer: c.answer(ctx, r.Rendered.Objects)})
		case len(r.Found) > 0:
			c.send(order{Answer: &answer{Refused: c.observer.Found(ctx, r.Found) != nil}})
		case r.Progress != nil:
			c.observer.Progress(r.Progress.Step, r.Progress.Message)
		case r.Warning != nil:
			c.observer.Warning(r.Warning.Reason, r.Warning.Message)
		case r.Log != "":
			c.observer.Log(r.Log)
		case r.Done != nil:
			return r.Done, nil
		}
	}
}

// send does not fail: if the process has ended, or is to stop, its reports end.
func (c *call) send(o order) { _ = c.process.orders.Encode(o) }

// answer asks the observer which objects are to be created. It knows why it refuses; the worker need not.
func (c *call) answer(ctx context.Context, objects []helm.Object) *answer {
	objects, err := c.observer.Rendered(ctx, objects)
	if err != nil {
		return &answer{Refused: true}
	}
	return &answer{Objects: objects}
}
