// Package helm3 does what package helm asks for with version 3 of the Helm library. No other package knows the library.
//
// # What it adds to Helm
//
// Helm's operations know no cancelling: they poll and watch for themselves, and leave goroutines behind. Here they run to their end in
// every case, but everything they wait for ends with the context: requests to the cluster fail, and waits are those of this package. What
// is left of the time is for the release: the revision that was in the making is noted as failed. See operation and history.
//
// Only rendering cannot be ended: a template that runs for ever keeps its goroutine, from which nothing comes any more when Run has
// returned. To get rid of it the process must be ended, and so it must when a template uses up the memory or the stack. That is what
// package worker is for.
//
// # What is stored when
//
// A revision is a Secret with a status. An install writes pending-install and then deployed or failed. An upgrade writes pending-upgrade,
// then the revision before as superseded, then deployed; in the end there may be a time without any deployed revision. A rollback, which
// is part of a failed atomic upgrade, writes pending-rollback as a revision of its own, then superseded, then deployed. An uninstall writes
// uninstalling and deletes the revisions, the newest last. Hooks write the same status again. When all this ends halfway, the newest
// revision is pending or uninstalling. Once it is marked as failed, see Request.Interrupted, the next upgrade goes on from the last deployed
// revision, or from the failed one if none is deployed, and takes over the objects that were made already. See TestCrash.
package helm3

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"runtime"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/kube"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

const (
	// orderly is how long Helm may take to come to an end after the context has ended, and bookkeeping how long the release may be
	// written to after that. Together they are less than the two seconds that a caller allows.
	orderly     = time.Second
	bookkeeping = 700 * time.Millisecond
)

// Client carries requests out with the Helm library.
type Client struct {
	wrap func(http.RoundTripper) http.RoundTripper
}

var _ helm.Helm = (*Client)(nil)

// Option sets up a Client.
type Option func(*Client)

// WrapTransport puts a round tripper around the transport of all requests to clusters.
func WrapTransport(wrap func(http.RoundTripper) http.RoundTripper) Option {
	return func(c *Client) { c.wrap = wrap }
}

// settleIn sets up what the library keeps for the whole process.
var settleIn sync.Once

// New returns a client. It takes the standard logger away from the process: Helm writes values to it.
func New(opts ...Option) *Client {
	settleIn.Do(func() {
		log.SetOutput(io.Discard)
		// The name that the command line uses: whoever goes on with the other of both owns the same fields.
		kube.ManagedFieldsManager = "helm"
	})
	c := &Client{wrap: func(next http.RoundTripper) http.RoundTripper { return next }}
	for _, opt := range opts {
		opt(c)
	}
	return c
}

// outcome is what an operation has come to.
type outcome struct {
	result *helm.Result
	err    error
}

// Run carries a request out. When ctx ends, it returns within two seconds. No request is sent to the cluster, and the observer is not
// called, after it has returned.
func (c *Client) Run(ctx context.Context, req *helm.Request, observer helm.Observer) (*helm.Result, error) {
	o := newOperation(ctx, c, req, observer)
	defer o.close()
	done := make(chan outcome, 1)
	go func() { done <- o.run() }()
	select {
	case out := <-done:
		return o.conclude(out)
	case <-o.clock.expired:
		o.abandon()
		return o.conclude(outcome{err: &helm.Error{Kind: helm.LimitExceeded, Message: fmt.Sprintf(
			"loading and rendering takes more than %s; look for templates that recurse or loop without an end", req.Limits.RenderTime)}})
	case <-ctx.Done():
	}
	select {
	case out := <-done:
		return o.conclude(out)
	case <-time.After(orderly):
		// Helm is busy with something that is no request.
		o.abandon()
		return o.conclude(outcome{err: ctx.Err()})
	}
}

// run calls perform and survives it.
func (o *operation) run() (out outcome) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		// The text of other panics may hold values.
		text := fmt.Sprintf("a panic with a %T", r)
		if err, ok := r.(runtime.Error); ok {
			text = err.Error()
		}
		out = outcome{err: &helm.Error{Kind: helm.Crashed, Message: "the Helm library has failed: " + text}}
	}()
	result, err := o.perform()
	return outcome{result, err}
}

// conclude brings the release to a state from which the next request can go on, and the error to the form of package helm.
func (o *operation) conclude(out outcome) (*helm.Result, error) {
	unsettled := o.settle(out.err == nil)
	switch {
	case out.err == nil && unsettled != nil:
		return nil, o.explain(fmt.Errorf("note that the release is deployed: %w", unsettled))
	case out.err == nil:
		return out.result, nil
	case o.caller.Err() != nil:
		return nil, o.caller.Err()
	default:
		return nil, o.explain(out.err)
	}
}

// perform does what the request asks for.
func (o *operation) perform() (*helm.Result, error) {
	switch o.req.Action {
	case helm.Render:
		return o.renderOnly()
	case helm.Values:
		return o.combineValues()
	case helm.Install, helm.Upgrade:
		return o.deploy()
	case helm.Uninstall:
		return o.uninstall()
	default:
		return nil, &helm.Error{Kind: helm.Rejected, Message: fmt.Sprintf("there is no action %q", o.req.Action)}
	}
}
