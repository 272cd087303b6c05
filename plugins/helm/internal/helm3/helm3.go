// Package helm3 implements package helm with version 3 of the Helm library. No other package knows the library.
//
// # Additions to Helm
//
// Helm's operations cannot be cancelled. When the context ends, all requests to the cluster fail and all waits end, so
// an operation ends soon after. The rest of the time is for the release: its revision in progress is marked as failed.
// See operation and history.
//
// Goroutines may be left behind, in a wait of Helm's or in an endless template. They send no requests and call no
// observer after Run; only the end of the process ends them. It also ends a template with too much memory or stack,
// see package worker.
//
// # The stored revisions
//
// A revision is a Secret with a status. An install writes pending-install and then deployed or failed. An upgrade
// writes pending-upgrade, then the revision before as superseded, then deployed; in the end there may be a time
// without any deployed revision. A rollback, part of a failed atomic upgrade, writes pending-rollback as a revision of
// its own, then superseded, then deployed. An uninstall writes uninstalling and deletes the revisions, the newest
// last. Hooks write the same status again. When all this ends halfway, the newest revision is pending or uninstalling.
// Once it is marked as failed, see Request.Interrupted, the next upgrade goes on from the last deployed revision, or
// from the failed one if none is deployed, and takes over the already created objects. See TestCrashAtEachStep of the
// deployer.
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
	// gracePeriod bounds Helm's way to its end after the end of the context, and cleanupTime the writes to the release
	// after that. Together they are less than the two seconds promised to a caller.
	gracePeriod = time.Second
	cleanupTime = 700 * time.Millisecond
)

// Client carries requests out with the Helm library.
type Client struct {
	wrap []func(http.RoundTripper) http.RoundTripper
}

var _ helm.Helm = (*Client)(nil)

// setup sets the library's state of the process.
var setup sync.Once

// New returns a client with these round trippers around the transport of all requests to clusters. Its requests take
// the standard logger away from the process: Helm writes values to it. Helm's warnings in it are reported by the
// latest request.
func New(wrap ...func(http.RoundTripper) http.RoundTripper) *Client {
	setup.Do(func() {
		// The command line's name, too: both then own the same fields, and either can go on after the other.
		kube.ManagedFieldsManager = "helm"
	})
	return &Client{wrap: wrap}
}

type outcome struct {
	result *helm.Result
	err    error
}

// Run carries a request out. When ctx ends, it returns within two seconds. After its return no request is sent to the
// cluster, and the observer is not called.
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
			// Helm is busy without a request, as in a template.
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

func (o *operation) perform() (*helm.Result, error) {
	switch o.req.Action {
	case helm.Render:
		defer o.tellWarnings()
		return o.renderOnly()
	case helm.Values:
		return o.combineValues()
	case helm.Index:
		listed, err := helm.ReadIndex(o.req.Chart.Path, o.req.Wanted)
		return &helm.Result{Listed: listed}, err
	case helm.Install, helm.Upgrade:
		defer o.tellWarnings() // for a chart with an error in its templates
		return o.deploy()
	case helm.Uninstall:
		return o.uninstall()
	default:
		return nil, failure(helm.Rejected, "there is no action %q", o.req.Action)
	}
}
