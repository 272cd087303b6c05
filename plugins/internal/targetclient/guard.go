package targetclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// requestTimeout bounds a single request, so that it is reported long before the time of a job is up. It is the time that an API server
// itself allows. For a watch it counts until it has begun. Time spent waiting for the rate limit does not count.
const requestTimeout = time.Minute

// guard is the transport of a Client: it sends requests to its server alone, keeps the rate limit, and does not let requests wait for a target
// that does not answer.
type guard struct {
	server  *url.URL
	clock   clock.WithDelayedExecution
	limiter *limiter
	pulse   *pulse
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper. When the target did not answer, the error is a *NoAnswerError.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := CheckServer(req, g.server); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper has to
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	r, err := g.pulse.begin(cancel) //nolint:contextcheck // a probe does not end with the request that made it start
	if err == nil {
		err = g.limiter.wait(ctx)
	}
	if err != nil {
		if r != nil {
			g.pulse.end(r)
		}
		cancel(nil)
		if req.Body != nil {
			_ = req.Body.Close() // nothing was sent; the error of that is returned
		}
		return nil, err
	}

	g.pulse.sent(r)
	timer := g.clock.AfterFunc(requestTimeout, func() { cancel(&NoAnswerError{After: requestTimeout}) })
	finish := sync.OnceFunc(func() {
		timer.Stop()
		g.pulse.end(r)
		cancel(nil)
	})
	res, err := g.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		if unanswered := noAnswer(ctx); unanswered != nil {
			err = unanswered
		}
		finish()
		return nil, err
	}
	g.pulse.heard()
	if isWatch(req) {
		timer.Stop()
		g.pulse.settled(r)
	}
	res.Body = &body{ReadCloser: res.Body, ctx: ctx, req: req, heard: g.pulse.heard, finish: finish}
	return res, nil
}

// CheckServer returns an error for a request that does not go to the server. Requests have the credentials of the Target, which the clients of
// client-go add also to one that follows a redirect, wherever that leads.
func CheckServer(req *http.Request, server *url.URL) error {
	if req.URL.Scheme == server.Scheme && req.URL.Host == server.Host {
		return nil
	}
	return fmt.Errorf("it redirects to %s://%s, where the credentials of the Target are not sent; correct the address in the Target", req.URL.Scheme, req.URL.Host)
}

// isWatch tells whether the answer goes on until somebody has enough of it.
func isWatch(req *http.Request) bool {
	watch, err := strconv.ParseBool(req.URL.Query().Get("watch"))
	return err == nil && watch
}

// noAnswer returns the error that the context was cancelled with, if that was because of no answer.
func noAnswer(ctx context.Context) error {
	var unanswered *NoAnswerError
	if errors.As(context.Cause(ctx), &unanswered) {
		return unanswered
	}
	return nil
}

// body is that of an answer, which is not complete until it was read.
type body struct {
	io.ReadCloser

	ctx    context.Context
	req    *http.Request
	heard  func()
	finish func()
}

// Read returns a *url.Error if the target fell silent, like the request would if that had not begun to be answered.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.heard()
	}
	if err == nil {
		return n, nil
	}
	if unanswered := noAnswer(b.ctx); unanswered != nil && !errors.Is(err, io.EOF) {
		err = &url.Error{Op: b.req.Method, URL: b.req.URL.Redacted(), Err: unanswered}
	}
	b.finish()
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.finish()
	return b.ReadCloser.Close()
}
