package main

import (
	"fmt"

	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/chartserver"
)

const registryUser, registryPassword = "demo", "not-for-everybody"

// startRegistry starts the registry that has the chart of the helm example. It asks for a password.
func startRegistry() (*chartserver.Registry, error) {
	registry, err := chartserver.NewRegistry(chartserver.Options{
		PlainHTTP: true, Auth: chartserver.Basic, User: registryUser, Password: registryPassword,
	})
	if err != nil {
		return nil, err
	}
	if _, err := registry.Push("charts/plain", "1.0.0", charts.Pack("plain")); err != nil {
		return nil, fmt.Errorf("put the chart into the demo's registry: %w", err)
	}
	return registry, nil
}
