// Package chart lets the author of a plugin add sources of charts to the helm deployer.
//
// The deployer itself brings archives in the provider configuration, archives at an address, OCI registries, chart
// repositories, and charts of component versions in OCI registries. A Resolver is for what is left of the component
// model: the field fromResource, and for the field resourceRef other repositories and types of access. Package
// plugins/helm/plugin takes it.
//
// A Resolver answers in one of two ways. Either it says where the chart really is, and the deployer downloads, checks
// and caches it as if the provider configuration had said so; that is the better way where it is possible. Or it hands
// over the archive.
package chart

import (
	"context"
	"io"
	"log/slog"

	"github.com/pergola-deploy/pergola/sdk"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Field is the field of a chart in the provider configuration that a Resolver is for.
type Field string

// The fields that may have a Resolver.
const (
	// ResourceRef is Chart.ResourceRef: a resource of a component, in base64. Its Resolver may return nil without an error;
	// the deployer looks for the chart itself then.
	ResourceRef Field = "resourceRef"
	// FromResource is Chart.FromResource, which ResourceRef has replaced. It needs a Resolver.
	FromResource Field = "fromResource"
)

// Resolver finds the charts of one Field.
type Resolver interface {
	// ResolveChart finds the chart of a request. It is called once in each job that needs the chart, and at the same
	// time for several deploy items; it keeps what it wants to keep by itself. It should return soon after ctx has
	// ended.
	//
	// An error that has an *sdk.Error in its chain decides by its codes whether the job has failed; without one the
	// call is retried. Its text appears in the status of the deploy item and must hold no secrets.
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
	// Field is the one that is set in Chart.
	Field Field
	// Chart as the provider configuration has it.
	Chart helmv1alpha1.Chart
	// DeployItem that the chart is for.
	DeployItem *v1alpha1.DeployItem
	// Context of the deploy item, which has the repository context of the component model. It is never nil but may be
	// empty.
	Context *v1alpha1.Context
	// Credentials that the Context names; nil if there are none. They are for this call, and only for the servers that
	// they are meant for.
	Credentials *sdk.Credentials
	// Log arrives in the host with the deploy item and the job added. Never nil.
	Log *slog.Logger
}

// Resolved is a chart that a Resolver has found. Exactly one of Chart and Archive is set.
type Resolved struct {
	// Chart says where the chart is. It must be a source that the deployer brings, and is fetched with the credentials
	// of the request.
	Chart *helmv1alpha1.Chart
	// Archive is the packed chart, a gzipped tar. The deployer reads it, not beyond the size that it allows archives,
	// and closes it in any case, also in the middle of a Read if the job ends.
	Archive io.ReadCloser
	// Digest that Archive must have, such as "sha256:…"; empty if it is not known. Not with Chart.
	Digest string
	// From says for people where Archive is from, such as "resource chart of component example.org/shop 1.2.3". Not
	// with Chart.
	From string
}
