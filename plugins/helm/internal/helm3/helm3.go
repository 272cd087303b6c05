// Package helm3 does what package helm asks for with version 3 of the Helm library. No other package knows the
// library.
//
// # What it adds to Helm
//
// Helm's operations cannot be cancelled. When the context ends, all requests to the cluster fail and no wait goes
// on, so that an operation comes to its end soon. The time that is left is for the release: the revision in
// progress is marked as failed. See operation and history.
//
// Goroutines may be left behind, in a wait of Helm's or in a template that never ends. They send no requests and
// call no observer when Run has returned; only the end of the process ends them. It also ends a template that uses
// up the memory or the stack, see package worker.
//
// # What is stored when
//
// A revision is a Secret with a status. An install writes pending-install and then deployed or failed. An upgrade
// writes pending-upgrade, then the revision before as superseded, then deployed; in the end there may be a time
// without any deployed revision. A rollback, which is part of a failed atomic upgrade, writes pending-rollback as a
// revision of its own, then superseded, then deployed. An uninstall writes uninstalling and deletes the revisions,
// the newest last. Hooks write the same status again. When all this ends halfway, the newest revision is pending or
// uninstalling. Once it is marked as failed, see Request.Interrupted, the next upgrade goes on from the last
// deployed revision, or from the failed one if none is deployed, and takes over the objects that were made already.
// See TestCrashAtEachStep of the deployer.
package helm3

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/kube"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

const (
	// gracePeriod is how long Helm may take to come to an end after the context has ended, and cleanupTime how long the
	// release may be written to after that. Together they are less than the two seconds that a caller allows.
	gracePeriod = time.Second
	cleanupTime = 700 * time.Millisecond
)

// Client carries requests out with the Helm library.
type Client struct {
	wrap []func(http.RoundTripper) http.RoundTripper
}

var _ helm.Helm = (*Client)(nil)

// setup sets up what the library keeps for the whole process.
var setup sync.Once

// New returns a client that puts round trippers around the transport of all requests to clusters. Its requests take the
// standard logger away from the process: Helm writes values to it. What Helm warns of there is told by the request that
// has begun last.
func New(wrap ...func(http.RoundTripper) http.RoundTripper) *Client {
	setup.Do(func() {
		// The name that the command line uses: whoever goes on with the other of both owns the same fields.
		kube.ManagedFieldsManager = "helm"
	})
	return &Client{wrap: wrap}
}

// outcome is what an operation has come to.
type outcome struct {
	result *helm.Result
	err    error
}

// Run carries a request out. When ctx ends, it returns within two seconds. No request is sent to the cluster, and
// the observer is not called, after it has returned.
func (c *Client) Run(ctx context.Context, req *helm.Request, observer helm.Observer) (*helm.Result, error) {
	o, err := newOperation(ctx, c, req, observer)
	if err != nil {
		return nil, err
	}
	defer o.close()
	defer library.goTo(o.noteWarning)()
	done := make(chan outcome, 1)
	go func() {
		result, err := o.perform()
		done <- outcome{result, err}
	}()
	var out outcome
	select {
	case out = <-done:
	case <-ctx.Done():
		select {
		case out = <-done:
		case <-time.After(gracePeriod):
			// Helm is busy with something that is no request, such as a template.
			out.err = ctx.Err()
		}
	}
	if o.history != nil {
		if err := o.history.finish(out.err == nil); err != nil && out.err == nil {
			out.err = fmt.Errorf("note that the release is deployed: %w", err)
		}
	}
	switch {
	case out.err == nil:
		return out.result, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, o.explain(out.err)
	}
}

// perform does what the request asks for.
func (o *operation) perform() (*helm.Result, error) {
	switch o.req.Action {
	case helm.Render:
		defer o.tellWarnings()
		return o.renderOnly()
	case helm.Values:
		return o.combineValues()
	case helm.Install, helm.Upgrade:
		defer o.tellWarnings() // those of a chart that cannot be rendered
		return o.deploy()
	case helm.Uninstall:
		return o.uninstall()
	default:
		return nil, failure(helm.Rejected, "there is no action %q", o.req.Action)
	}
}
