package helm3

import (
	"context"
	"fmt"
	"net/http"

	"helm.sh/helm/v3/pkg/action"
	helmstorage "helm.sh/helm/v3/pkg/storage"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/objects"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/render"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/storage"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
)

// operation carries one request out.
type operation struct {
	req      *helm.Request
	observer helm.Observer
	journal  *journal.Journal
	renderer *render.Renderer
	// ctx ends with the call.
	ctx  context.Context
	stop context.CancelFunc
	// cleanup ends with the operation, later than ctx: for the writes to the release, and for reports.
	cleanup    context.Context
	endCleanup context.CancelFunc

	// These are nil without a kubeconfig.
	cluster *cluster
	history *storage.History
	objects *objects.Client
	config  *action.Configuration
}

// newOperation also makes Helm's clients, for a request with a kubeconfig. It sends no request.
func newOperation(
	ctx context.Context, wrap []func(http.RoundTripper) http.RoundTripper, req *helm.Request, observer helm.Observer,
) (*operation, error) {
	o := &operation{req: req, observer: observer}
	o.ctx, o.stop = context.WithCancel(apiserver.WithBreaker(ctx))
	o.cleanup, o.endCleanup = context.WithCancel(apiserver.WithBreaker(context.WithoutCancel(ctx)))
	o.journal = journal.New(o.cleanup, req, observer) //nolint:contextcheck // reports end with the operation
	o.renderer = render.New(req, o.journal)
	if len(req.Kubeconfig) == 0 {
		return o, nil
	}
	if err := o.connect(wrap); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *operation) connect(wrap []func(http.RoundTripper) http.RoundTripper) (err error) {
	if o.cluster, err = newCluster(o, wrap); err != nil {
		return err
	}
	core, err := corev1client.NewForConfig(o.cluster.cleanup)
	if err != nil {
		return fmt.Errorf("make a client of the target cluster: %w", err)
	}
	o.history = storage.New(o.ctx, o.req, o.journal, o.renderer, core)
	o.objects = objects.New(o.ctx, o.req, o.observer, o.journal, o.history, o.cluster)
	releases := helmstorage.Init(o.history)
	releases.MaxHistory, releases.Log = o.req.MaxHistory, o.journal.LogSteps
	o.config = &action.Configuration{
		RESTClientGetter: o.cluster, Releases: releases, KubeClient: o.objects, Log: o.journal.LogSteps,
	}
	return nil
}

func (o *operation) close() {
	o.stop()
	o.endCleanup()
}

// reportWarnings reports Helm's warnings about the chart. A retry has none: its chart is not deployed, and its first
// attempt has reported them.
func (o *operation) reportWarnings() {
	if o.history == nil || o.history.Attempt == nil {
		o.journal.ReportWarnings()
	}
}
