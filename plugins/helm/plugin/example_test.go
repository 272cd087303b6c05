package plugin_test //nolint:testableexamples // it serves until a host ends it

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// components finds charts that are resources of components: in a registry, below the name of their component.
type components struct{ registry string }

// resource is what chart.resourceRef has, in base64.
type resource struct {
	Component struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"component"`
	Resource struct {
		Name string `json:"name"`
	} `json:"resource"`
}

// ResolveChart says where the chart is. The deployer downloads it, with the credentials of the deploy item's Context,
// and keeps it.
func (c components) ResolveChart(_ context.Context, req *chart.ResolveRequest) (*chart.Resolved, error) {
	document, err := base64.StdEncoding.DecodeString(req.Chart.ResourceRef)
	if err != nil {
		return nil, sdk.ConfigurationError("ResourceRefInvalid", "spec.config: chart.resourceRef: expected base64: %w", err)
	}
	var r resource
	if err := json.Unmarshal(document, &r); err != nil {
		return nil, sdk.ConfigurationError("ResourceRefInvalid",
			"spec.config: chart.resourceRef: expected a component and a resource: %w", err)
	}
	ref := c.registry + "/" + r.Component.Name + "/" + r.Resource.Name + ":" + r.Component.Version
	return &chart.Resolved{Chart: &v1alpha1.Chart{Ref: ref}}, nil
}

// The main function of a helm plugin that knows charts of components.
func ExampleServe() {
	plugin.Serve("1.0.0", plugin.WithResolver(chart.ResourceRef, components{registry: "registry.example.org"}))
}
