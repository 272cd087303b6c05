// Package helm3 implements package helm with version 3 of the Helm library. Only packages below it know the library:
// render reads and renders charts, storage has the revisions, objects is Helm's client for objects, and journal has the
// reports. This package puts them together for each request.
//
// # Additions to Helm
//
// Helm's rollbacks and uninstallations cannot be cancelled. When the context ends, all requests to the cluster fail and
// all waits end, so any operation ends soon after. Only the storage of the release is written a little longer: Helm
// records the failure, see storage.History.End.
//
// A wait of Helm's may be left behind. It sends no requests and calls no observer after Run; the end of the process
// ends it. That is also the end of an endless template, see package worker.
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
	"net/http"
	"sync"

	"helm.sh/helm/v3/pkg/kube"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
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

// Run carries a request out. When ctx ends, all requests of Helm fail and its waits end, so Run returns soon after;
// only the end of the process ends a template. After its return no request is sent to the cluster, and the observer is
// not called.
func (c *Client) Run(ctx context.Context, req *helm.Request, observer helm.Observer) (*helm.Result, error) {
	o, err := newOperation(ctx, c.wrap, req, observer)
	if err != nil {
		return nil, err
	}
	defer o.close()
	defer o.journal.HearLibrary()()
	result, err := o.perform()
	if o.history != nil {
		err = o.history.End(err)
	}
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, o.journal.Explain(err)
	}
}

func (o *operation) perform() (*helm.Result, error) {
	switch o.req.Action {
	case helm.Render:
		defer o.reportWarnings()
		return o.render()
	case helm.Values:
		return o.renderer.CombineValues()
	case helm.Index:
		listed, err := helm.ReadIndex(o.req.Chart.Path, o.req.Wanted)
		return &helm.Result{Listed: listed}, err
	case helm.Install, helm.Upgrade:
		defer o.reportWarnings() // for a chart with an error in its templates
		return o.deploy()
	case helm.Uninstall:
		return o.uninstall()
	default:
		return nil, journal.Failure(helm.Rejected, "there is no action %q", o.req.Action)
	}
}
