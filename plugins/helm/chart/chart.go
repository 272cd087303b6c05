// Package chart lets the author of a plugin add sources of charts to the helm deployer.
//
// The deployer itself brings archives in the provider configuration, archives at an address, OCI registries, chart
// repositories, and charts of component versions in OCI registries. A Resolver is for the rest of the component
// model: the field fromResource, and for the field resourceRef other repositories and types of access. Package
// plugins/helm/plugin takes it.
//
// A Resolver answers with the source of the chart, or with its archive. The former is the better way if possible: the
// deployer downloads, checks and caches the chart as for a source in the provider configuration.
package chart

import (
	"context"
	"io"
	"log/slog"

	"github.com/pergola-deploy/pergola/sdk"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Field is a field of a chart in the provider configuration, for a Resolver.
type Field string

// The fields with an optional or required Resolver.
const (
	// ResourceRef is Chart.ResourceRef: a resource of a component, in base64. Its Resolver may return nil without an
	// error; then the deployer looks for the chart itself.
	ResourceRef Field = "resourceRef"
	// FromResource is Chart.FromResource, the predecessor of ResourceRef. It needs a Resolver.
	FromResource Field = "fromResource"
)

// Resolver finds the charts of one Field.
type Resolver interface {
	// ResolveChart finds the chart of a request. It is called once in each job with a need for the chart, and
	// concurrently for several deploy items; any caching is up to the Resolver. It should return soon after ctx has
	// ended.
	//
	// The codes of an *sdk.Error in the chain of an error decide whether the job has failed; without an *sdk.Error the
	// call is retried. The error's text appears in the status of the deploy item and must hold no secrets.
	ResolveChart(ctx context.Context, req *ResolveRequest) (*Resolved, error)
}

// ResolverFunc is a function as a Resolver.
type ResolverFunc func(ctx context.Context, req *ResolveRequest) (*Resolved, error)

var _ Resolver = ResolverFunc(nil)

// ResolveChart calls the function.
func (f ResolverFunc) ResolveChart(ctx context.Context, req *ResolveRequest) (*Resolved, error) {
	return f(ctx, req)
}

// ResolveRequest asks for one chart. It is valid until the call returns, and must not be changed.
type ResolveRequest struct {
	// Field is the set field of Chart.
	Field Field
	// Chart of the provider configuration.
	Chart helmv1alpha1.Chart
	// DeployItem with the chart.
	DeployItem *v1alpha1.DeployItem
	// Context of the deploy item, with the repository context of the component model. It is never nil but may be empty.
	Context *v1alpha1.Context
	// Credentials named by the Context; nil for none. They are for this call, and only for their own servers.
	Credentials *sdk.Credentials
	// Log arrives in the host with the deploy item and the job added. Never nil.
	Log *slog.Logger
}

// Resolved is the answer of a Resolver. Exactly one of Chart and Archive is set.
type Resolved struct {
	// Chart is the source of the chart. It must be one of the deployer's own sources, and is fetched with the
	// credentials of the request.
	Chart *helmv1alpha1.Chart
	// Archive is the packed chart, a gzipped tar. The deployer reads at most its limit for archives, and closes it in
	// any case, also in the middle of a Read if the job ends.
	Archive io.ReadCloser
	// Digest of Archive, such as "sha256:…", for a check; empty if unknown. Not with Chart.
	Digest string
	// From is the origin of Archive as a text for users, such as "resource chart of component example.org/shop 1.2.3".
	// Not with Chart.
	From string
}
