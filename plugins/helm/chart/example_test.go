package chart_test

import (
	"context"
	"fmt"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/sdk"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// A resolver that knows where the resources of components are.
func ExampleResolverFunc() {
	known := map[string]string{"c2hvcA==": "registry.example.org/charts/shop:1.2.3"}
	resolver := chart.ResolverFunc(func(_ context.Context, req *chart.ResolveRequest) (*chart.Resolved, error) {
		ref, ok := known[req.Chart.ResourceRef]
		if !ok {
			return nil, sdk.ConfigurationError("ResourceUnknown", "chart.%s: there is no such resource", req.Field)
		}
		return &chart.Resolved{Chart: &helmv1alpha1.Chart{Ref: ref}}, nil
	})
	for _, resource := range []string{"c2hvcA==", "eA=="} {
		resolved, err := resolver.ResolveChart(context.Background(), &chart.ResolveRequest{
			Field: chart.ResourceRef, Chart: helmv1alpha1.Chart{ResourceRef: resource},
		})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(resolved.Chart.Ref)
	}
	// Output:
	// registry.example.org/charts/shop:1.2.3
	// chart.resourceRef: there is no such resource
}
