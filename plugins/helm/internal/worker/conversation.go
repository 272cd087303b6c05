package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/time/rate"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// How much of a worker's talk the observer hears: so much a second, and so much at once.
const (
	talkPerSecond = 50
	talkBurst     = 500
)

// conversation is what a parent and its worker say to each other about one request.
type conversation struct {
	pool     *Pool
	req      *helm.Request
	observer helm.Observer
	child    *process
	// rendered is called once the chart was rendered.
	rendered func()

	send   chan []byte
	events chan event
	// closed gets why there are no further events.
	closed chan error
	// over is closed when nobody listens any more.
	over chan struct{}

	talk    *rate.Limiter
	dropped int
}

// Ends of a conversation that the parent makes.
var (
	errTooSlow = errors.New("the chart was not rendered in time")
	errSilent  = errors.New("the worker does not say hello")
)

// run has the conversation. The process may go on when it returns.
func (c *conversation) run(ctx context.Context) (*helm.Result, error) {
	var request bytes.Buffer
	if err := appendMessage(&request, kindRequest, c.req); err != nil {
		return nil, crash(c.req, err.Error())
	}
	c.talk = rate.NewLimiter(talkPerSecond, talkBurst)
	// There is a place for whatever is sent: the request, the answer to kindRendered, and kindStop.
	c.send, c.events, c.closed, c.over = make(chan []byte, 3), make(chan event), make(chan error, 1), make(chan struct{})
	go c.write()
	go c.listen()
	defer close(c.over)
	done, err := c.attend(ctx, request.Bytes())
	if c.dropped > 0 {
		c.child.stderr.log.Debug("a worker has told more than is passed on", "messages", c.dropped)
	}
	switch {
	case err == nil && done.result != nil:
		return done.result, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s was stopped: %w", doing(c.req), causeOf(ctx))
	case err != nil:
		return nil, c.explain(err)
	case done.err != nil:
		return nil, done.err
	default:
		return nil, crash(c.req, "its process has stopped, although nobody has told it to")
	}
}

// attend listens until the worker is done. The error is the reason why it will not be.
func (c *conversation) attend(ctx context.Context, request []byte) (doneEvent, error) {
	deadline, late := time.NewTimer(startTime), errSilent // first for its hello, and then for rendering
	defer deadline.Stop()
	stopping := ctx.Done()
	var grace <-chan time.Time
	for {
		select {
		case e := <-c.events:
			switch e := e.(type) {
			case helloEvent:
				c.send <- request
				deadline.Reset(renderDeadline(c.req))
				late = errTooSlow
				if c.req.Action == helm.Uninstall {
					deadline.Stop()
				}
			case renderedEvent:
				deadline.Stop()
				c.rendered()
				answer, err := c.answer(ctx, e.objects)
				if err != nil {
					return doneEvent{}, err
				}
				c.send <- answer
			case doneEvent:
				return e, nil
			default:
				c.tell(e)
			}
		case err := <-c.closed:
			return doneEvent{}, err
		case <-deadline.C:
			return doneEvent{}, late
		case <-stopping:
			stopping = nil
			var stop bytes.Buffer
			if err := appendMessage(&stop, kindStop, nil); err != nil {
				return doneEvent{}, err
			}
			c.send <- stop.Bytes()
			timer := time.NewTimer(c.pool.grace)
			defer timer.Stop()
			grace = timer.C
		case <-grace:
			return doneEvent{}, context.Cause(ctx)
		}
	}
}

// answer asks the observer which objects are to be created, and returns the message to the worker.
func (c *conversation) answer(ctx context.Context, objects []helm.Object) ([]byte, error) {
	var message bytes.Buffer
	end := kindInstead
	objects, err := c.observer.Rendered(ctx, objects)
	if err != nil { // it knows why; the worker need not
		end, objects = kindRefused, nil
	}
	if err := errors.Join(appendObjects(&message, kindObject, objects), appendMessage(&message, end, nil)); err != nil {
		return nil, err
	}
	return message.Bytes(), nil
}

// tell passes on what a worker says of its work, unless that is too much.
func (c *conversation) tell(e event) {
	if !c.talk.Allow() {
		c.dropped++
		return
	}
	switch e := e.(type) {
	case progressEvent:
		c.observer.Progress(e.Step, e.Message)
	case logEvent:
		c.observer.Log(e.line)
	}
}

// explain says for people why a worker will not be done. It ends the process first, to know how it has ended.
func (c *conversation) explain(err error) error {
	switch {
	case errors.Is(err, errTooSlow):
		c.child.end()
		return tooSlow(c.req, c.child.state.UserTime()+c.child.state.SystemTime())
	case errors.Is(err, errSilent):
		return crash(c.req, fmt.Sprintf("its process did not begin to work within %s; the machine is overloaded, or %s", startTime, errNotMain))
	case errors.Is(err, errTooMuch):
		return exceedsSize(c.req)
	case errors.Is(err, errNonsense):
		return crash(c.req, "its process has lost its head: "+err.Error())
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return crash(c.req, err.Error())
	}
	select {
	case <-c.child.ended:
	case <-time.After(waitFor):
		c.child.end()
		return crash(c.req, "its process has closed its pipe, and not ended")
	}
	return verdict(c.req, c.child.state, c.child.stderr.death)
}

// write sends what is to be sent, in its order. It ends with the conversation, whose pipe is closed then.
func (c *conversation) write() {
	for {
		select {
		case message := <-c.send:
			if _, err := c.child.to.Write(message); err != nil {
				return // the worker has ended, which listen finds out
			}
		case <-c.over:
			return
		}
	}
}

// listen receives events until there are none. It ends soon after the conversation, whose pipe is closed then.
func (c *conversation) listen() {
	r := newReceiver(c.child.from, c.req)
	for {
		e, err := r.next()
		if err != nil {
			c.closed <- err
			return
		}
		select {
		case c.events <- e:
		case <-c.over:
			return
		}
		if _, done := e.(doneEvent); done {
			return
		}
	}
}
