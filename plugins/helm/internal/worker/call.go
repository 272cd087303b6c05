package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// Why the parent gives up a worker.
var (
	errTooSlow   = errors.New("the chart was not rendered in time")
	errNoStart   = errors.New("the worker does not begin")
	errOddReport = errors.New("its process has sent an invalid message")
)

// run carries the request out. It returns the worker's last message, if there is one. The process may go on when it
// returns.
func (c *call) run(ctx context.Context) (*done, error) {
	last, err := c.follow(ctx)
	switch {
	case err == nil && last.Result != nil:
		return last, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s was stopped: %w", doing(c.req), causeOf(ctx))
	case err != nil:
		return nil, c.explain(err)
	case last.Err != nil:
		return nil, last.Err
	default:
		return nil, crash(c.req, "its process has stopped, although nobody has told it to")
	}
}

// follow receives the worker's messages until the last one. The error is why there will be none.
func (c *call) follow(ctx context.Context) (*done, error) {
	c.process.send(order{Request: c.req})
	deadline, late := time.NewTimer(startTime), errNoStart // first for its start, and then for rendering
	defer deadline.Stop()
	begin := func() {
		deadline.Reset(renderDeadline(c.req))
		late = errTooSlow
		if c.req.Action == helm.Uninstall {
			deadline.Stop()
		}
	}
	if c.process.requests > 1 {
		begin()
	}
	stopping := ctx.Done()
	var grace <-chan time.Time
	for {
		select {
		case r := <-c.process.reports:
			switch {
			case r.Rendered != nil:
				deadline.Stop()
				c.rendered()
				c.process.send(order{Answer: c.answer(ctx, r.Rendered.Objects)})
			case r.Progress != nil:
				c.observer.Progress(r.Progress.Step, r.Progress.Message)
			case r.Log != "":
				c.observer.Log(r.Log)
			case r.Done != nil:
				return r.Done, nil
			default:
				begin()
			}
		case err := <-c.process.closed:
			return nil, err
		case <-deadline.C:
			return nil, late
		case <-stopping:
			stopping = nil
			c.process.send(order{Stop: true})
			timer := time.NewTimer(c.grace)
			defer timer.Stop()
			grace = timer.C
		case <-grace:
			return nil, context.Cause(ctx)
		}
	}
}

// answer asks the observer which objects are to be created. It knows why it refuses; the worker need not.
func (c *call) answer(ctx context.Context, objects []helm.Object) *answer {
	objects, err := c.observer.Rendered(ctx, objects)
	if err != nil {
		return &answer{Refused: true}
	}
	return &answer{Objects: objects}
}

// explain says for people why a worker has not done its work. It ends the process first, to know how it has ended.
func (c *call) explain(err error) error {
	switch {
	case errors.Is(err, errTooSlow):
		c.process.end()
		return tooSlow(c.req, c.process.state.UserTime()+c.process.state.SystemTime()-c.process.busy)
	case errors.Is(err, errNoStart):
		return crash(c.req, fmt.Sprintf("its process did not begin to work within %s; the machine is overloaded, or %s",
			startTime, errNotMain))
	case errors.Is(err, errTooMuch):
		return exceedsSize(c.req)
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return crash(c.req, fmt.Sprintf("%s: %s", errOddReport, err))
	}
	select {
	case <-c.process.ended:
	case <-time.After(waitFor):
		c.process.end()
		return crash(c.req, "its process has closed its pipe, and not ended")
	}
	return verdict(c.req, c.process.state, c.process.stderr.diagnosis())
}
