package chartsource

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/plugins/internal/ocm"
	"github.com/pergola-deploy/pergola/sdk"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// fromComponent gets the archive of a chart in a resource of a component version.
func (f *Fetcher) fromComponent(
	ctx context.Context, key component.Key, req *Request, credentials *sdk.Credentials,
) (*fetch.File, error) {
	var repositoryContext []byte
	if req.Context != nil && req.Context.RepositoryContext != nil {
		repositoryContext = req.Context.RepositoryContext.Raw
	}
	places, err := component.PlacesOf(repositoryContext, req.OCMConfig, req.Warning)
	if err != nil {
		return nil, aboutComponent(key, err)
	}
	version, err := f.components.Version(ctx, places, credentials.Registries, key.Component, key.Version)
	if err != nil {
		return nil, aboutComponent(key, err)
	}
	resource, err := version.Resource(key.Resource)
	if err != nil {
		return nil, aboutComponent(key, err)
	}
	access, want, err := version.Access(resource)
	if err != nil {
		return nil, aboutComponent(key, err)
	}
	var archive *fetch.File
	if repository, ok := access.(component.HelmChart); ok {
		archive, err = f.fromHelmAccess(ctx, repository, want, credentials)
	} else {
		wanted := f.want()
		wanted.Digest = want
		archive, err = f.components.Content(ctx, access, credentials, wanted)
	}
	if errors.As(err, new(*sdk.Error)) {
		return nil, fmt.Errorf("fetch %s: %w", key, err) // an error about a chart repository does not name the resource
	}
	return archive, about(key.String(), err)
}

// fromHelmAccess gets the archive of a chart in a chart repository.
func (f *Fetcher) fromHelmAccess(
	ctx context.Context, access component.HelmChart, want component.Expected, credentials *sdk.Credentials,
) (*fetch.File, error) {
	found, invalid := parseRepository(helmv1alpha1.HelmChartRepo{
		HelmChartRepoURL: access.Repository, HelmChartName: access.Name, HelmChartVersion: access.Version,
	}, field.NewPath("access"))
	o, ok := found.(repositoryOrigin)
	if !ok {
		return nil, fetch.Errorf(fetch.Invalid, "the access cannot be used: %w", invalid.ToAggregate())
	}
	archive, err := f.fromRepository(ctx, o, credentials)
	if err != nil {
		return nil, err
	}
	return ocm.Verified(archive, want.Blob)
}

// aboutComponent is about for errors in the component on the way to the chart.
func aboutComponent(key component.Key, err error) error {
	if found := fetch.Explain(err); found.Kind == fetch.Invalid {
		return fail(ReasonComponentInvalid, key.String(), "%w", found.Err)
	}
	return about(key.String(), err)
}
