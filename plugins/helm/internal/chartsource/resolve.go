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
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// resolve asks a resolver for the source of a chart, or for its archive, and returns one of them; neither if the
// chart needs no resolver.
func (f *Fetcher) resolve(
	ctx context.Context, o resolverOrigin, req *Request,
) (source Source, archive *fetch.File, err error) {
	resolver, ok := f.config.Resolvers[o.field]
	switch {
	case ok:
	case o.field == chart.ResourceRef:
		return Source{}, nil, nil
	default:
		return Source{}, nil, fail(ReasonResolverMissing, o.String(), "it needs a resolver, and this helm deployer has "+
			"none; set chart.resourceRef, chart.ref, chart.helmChartRepo or chart.archive instead, or use a helm deployer "+
			"that was built with a resolver")
	}
	resolved, err := resolver.ResolveChart(ctx, &chart.ResolveRequest{
		Field: o.field, Chart: o.chart, DeployItem: req.DeployItem, Context: cmp.Or(req.Context, &v1alpha1.Context{}),
		Credentials: req.Credentials, Log: cmp.Or(req.Log, slog.New(slog.DiscardHandler)),
	})
	switch {
	case err != nil:
		return Source{}, nil, &sdk.Error{
			Codes: sdk.Codes(err), Operation: Operation, Reason: ReasonResolveFailed, Err: fmt.Errorf("resolve %s: %w", o, err),
		}
	case resolved == nil && o.field == chart.ResourceRef:
		return Source{}, nil, nil
	case resolved == nil || (resolved.Chart == nil) == (resolved.Archive == nil):
		if resolved != nil && resolved.Archive != nil {
			err = resolved.Archive.Close()
		}
		return Source{}, nil, resolveFailed(
			errors.Join(errors.New("the resolver has returned neither a chart nor an archive, or both"), err))
	case resolved.Archive != nil:
		if archive, err = f.readResolved(ctx, resolved); err != nil {
			err = about(cmp.Or(resolved.From, o.String()), err)
		}
		return Source{}, archive, err
	}
	source, invalid := Parse(*resolved.Chart, field.NewPath("chart"))
	if err := invalid.ToAggregate(); err != nil {
		return Source{}, nil, fail(ReasonSourceInvalid, o.String(), "what the resolver has found cannot be used: %w", err)
	}
	if source.NeedsResolver() != "" {
		return Source{}, nil, fail(ReasonSourceInvalid, o.String(),
			"the resolver has found a chart of the component model again")
	}
	return source, nil, nil
}

// readResolved reads the archive of a resolver's answer.
func (f *Fetcher) readResolved(ctx context.Context, resolved *chart.Resolved) (*fetch.File, error) {
	failed := func(err error) error {
		return fetch.Errorf(fetch.Unavailable, "%w", resolveFailed(fmt.Errorf("read the archive of the resolver: %w", err)))
	}
	closing := sync.OnceValue(resolved.Archive.Close)
	stop := context.AfterFunc(ctx, func() { _ = closing() }) // ends a Read that hangs
	defer stop()
	content := fetch.Body{From: resolved.Archive, Explain: failed}
	archive, err := f.files.Store(content, f.config.ArchiveBytes, isArchive, fetch.HasDigest(resolved.Digest))
	if err := closing(); err != nil && archive != nil {
		archive.Release()
		return nil, failed(err)
	}
	return archive, err
}

// resolveFailed is a mistake of a resolver.
func resolveFailed(err error) error {
	return &sdk.Error{Operation: Operation, Reason: ReasonResolveFailed, Err: err}
}
