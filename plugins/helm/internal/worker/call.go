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
	// rendered is called after the rendering.
	rendered func()
	// grace is the worker's time to stop.
	grace time.Duration
}

// errTooSlow is the parent's reason to give up a worker.
var errTooSlow = errors.New("the chart was not rendered in time")

// run carries the request out, and returns the worker's last message with a result. After the end of ctx the process
// is about to end.
func (c *call) run(ctx context.Context) (*done, error) {
	dismiss := context.AfterFunc(ctx, func() {
		_ = c.process.to.Close() // asks it to stop; an error is that of an ended process
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

// follow receives the worker's messages until the last one. The error is the reason for its absence.
func (c *call) follow(ctx context.Context) (*done, error) {
	// inTime reports whether the process has rendered, or ended, before the time for rendering was up; after it the
	// process is killed.
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

// answer asks the observer for the objects to create. The observer keeps the reason of a refusal; the worker need not
// know it.
func (c *call) answer(ctx context.Context, objects []helm.Object) *answer {
	objects, err := c.observer.Rendered(ctx, objects)
	if err != nil {
		return &answer{Refused: true}
	}
	return &answer{Objects: objects}
}
