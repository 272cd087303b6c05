// Package plugin serves the mock plugin.
package plugin

import (
	_ "embed"

	"github.com/pergola-deploy/pergola/sdk"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
)

// schema is the JSON schema of the provider configuration.
//
//go:embed providerconfiguration.schema.json
var schema []byte

// Serve is the main function of the plugin.
func Serve(version string) { sdk.Serve(&deployer{}, options(version)...) }

func options(version string) []sdk.Option {
	return []sdk.Option{
		sdk.Name("mock"), sdk.Version(version), sdk.Types(mockv1alpha1.Type),
		sdk.ProviderConfigSchema(mockv1alpha1.Type, schema), sdk.ScheduleInConfig(),
	}
}
