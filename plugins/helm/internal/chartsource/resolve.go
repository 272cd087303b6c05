package chartsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// resolve asks a resolver where a chart is, or for the chart itself, and returns either the one or the other.
func (f *Fetcher) resolve(ctx context.Context, o resolverOrigin, req *Request) (source Source, archive *file, err error) {
	resolver, ok := f.config.Resolvers[o.field]
	if !ok {
		return req.Source, nil, faultf(ReasonResolverMissing, "a chart of the component model needs a resolver, and this helm "+
			"deployer has none; set chart.ref, chart.helmChartRepo or chart.archive instead, or use a helm deployer that was "+
			"built with a resolver")
	}
	resolved, err := resolver.ResolveChart(ctx, &chart.ResolveRequest{
		Field: o.field, Chart: o.chart, DeployItem: req.DeployItem, Context: cmp.Or(req.Context, &v1alpha1.Context{}),
		Credentials: req.Credentials, Log: cmp.Or(req.Log, slog.New(slog.DiscardHandler)),
	})
	switch {
	case err != nil:
		return req.Source, nil, &sdk.Error{
			Codes: sdk.Codes(err), Operation: Operation, Reason: ReasonResolveFailed, Err: fmt.Errorf("resolve %s: %w", o, err),
		}
	case resolved == nil || (resolved.Chart == nil) == (resolved.Archive == nil):
		if resolved != nil && resolved.Archive != nil {
			err = resolved.Archive.Close()
		}
		return req.Source, nil, faultf(ReasonResolveFailed, "%w",
			errors.Join(errors.New("the resolver has returned neither a chart nor an archive, or both"), err))
	case resolved.Archive != nil:
		if archive, err = f.readResolved(ctx, resolved); err != nil {
			err = about(cmp.Or(resolved.From, o.String()), err)
		}
		return req.Source, archive, err
	}
	source, invalid := Parse(*resolved.Chart, field.NewPath("chart"))
	if err := invalid.ToAggregate(); err != nil {
		return req.Source, nil, faultf(ReasonSourceInvalid, "what the resolver has found cannot be used: %w", err)
	}
	if source.NeedsResolver() != "" {
		return req.Source, nil, faultf(ReasonSourceInvalid, "the resolver has found a chart of the component model again")
	}
	return source, nil, nil
}

// readResolved reads the archive that a resolver has handed over.
func (f *Fetcher) readResolved(ctx context.Context, resolved *chart.Resolved) (*file, error) {
	failed := func(err error) error {
		return faultf(ReasonResolveFailed, "read the archive of the resolver: %w", err)
	}
	closing := sync.OnceValue(resolved.Archive.Close)
	stop := context.AfterFunc(ctx, func() { _ = closing() }) // ends a Read that hangs
	defer stop()
	content := body{from: resolved.Archive, explain: failed}
	archive, err := f.cache.store(content, f.config.ArchiveBytes, isArchive, hasDigest(resolved.Digest))
	if err := closing(); err != nil && archive != nil {
		f.cache.release(archive, 1)
		return nil, failed(err)
	}
	return archive, err
}
