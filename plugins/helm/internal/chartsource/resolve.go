package chartsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/cache"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// resolve asks a resolver where a chart is, or for the chart itself. from says so for people.
func (f *Fetcher) resolve(ctx context.Context, o resolverOrigin, req *Request, credentials *sdk.Credentials) (entry *cache.Entry, from string, err error) {
	resolver, ok := f.config.Resolvers[o.field]
	if !ok {
		return nil, "", fail(ReasonResolverMissing, "chart.%s: a chart of the component model needs a resolver, and this helm deployer has none; "+
			"set chart.ref, chart.helmChartRepo or chart.archive instead, or use a helm deployer that was built with a resolver", o.field)
	}
	asked := &chart.ResolveRequest{
		Field: o.field, Chart: o.chart, DeployItem: req.DeployItem, Context: req.Context, Credentials: req.Credentials, Log: req.Log,
	}
	if asked.Context == nil {
		asked.Context = &v1alpha1.Context{}
	}
	if asked.Log == nil {
		asked.Log = slog.New(slog.DiscardHandler)
	}
	resolved, err := resolver.ResolveChart(ctx, asked)
	switch {
	case err != nil:
		return nil, "", &sdk.Error{Codes: sdk.Codes(err), Operation: Operation, Reason: ReasonResolveFailed, Err: fmt.Errorf("resolve %s: %w", o, err)}
	case resolved == nil || (resolved.Chart == nil) == (resolved.Archive == nil):
		if resolved != nil && resolved.Archive != nil {
			err = resolved.Archive.Close()
		}
		return nil, "", fail(ReasonResolveFailed, "resolve %s: %w", o,
			errors.Join(errors.New("the resolver has returned neither a chart nor an archive, or both"), err))
	case resolved.Archive != nil:
		return f.resolvedArchive(ctx, o, resolved)
	}
	source, invalid := Parse(*resolved.Chart, field.NewPath("chart"))
	if err := invalid.ToAggregate(); err != nil {
		return nil, "", fail(ReasonSourceInvalid, "resolve %s: what the resolver has found cannot be used: %w", o, err)
	}
	if source.NeedsResolver() != "" {
		return nil, "", fail(ReasonSourceInvalid, "resolve %s: the resolver has found a chart of the component model again", o)
	}
	entry, err = f.fetch(ctx, source, credentials)
	if err != nil {
		err = explain(source, err)
	}
	return entry, source.String(), err
}

// resolvedArchive reads the archive that a resolver has handed over.
func (f *Fetcher) resolvedArchive(ctx context.Context, o resolverOrigin, resolved *chart.Resolved) (*cache.Entry, string, error) {
	from := o.String()
	if resolved.From != "" {
		from = resolved.From
	}
	archive := sync.OnceValue(resolved.Archive.Close)
	stop := context.AfterFunc(ctx, func() { _ = archive() }) // ends a Read that hangs
	entry, err := f.store(o, untilEnd{ctx, resolved.Archive}, -1, f.config.ArchiveBytes, isArchive, hasDigest(resolved.Digest))
	stop()
	if closing := archive(); err == nil && closing != nil {
		entry.Release()
		err = closing
	}
	var known *sdk.Error
	var disk *cache.Error
	var large *cache.TooLargeError
	if err != nil && !errors.As(err, &known) && !errors.As(err, &disk) && !errors.As(err, &large) {
		err = fail(ReasonResolveFailed, "resolve %s: read the archive of the resolver: %w", o, err)
	}
	return entry, from, err
}

// untilEnd reads as long as the context has not ended.
type untilEnd struct {
	ctx  context.Context //nolint:containedctx // it is that of the call that reads
	from io.Reader
}

func (r untilEnd) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}
