// Command mock is the mock deployer: it deploys nothing and ends jobs as their provider configuration says. It is for
// tests of everything around deployers, and for a look at the phases of a DeployItem.
package main

import (
	_ "embed"

	"github.com/pergola-deploy/pergola/sdk"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
)

// version is set by the linker.
var version = "0.0.0-dev"

// schema is the JSON schema of the provider configuration.
//
//go:embed providerconfiguration.schema.json
var schema []byte

func main() {
	sdk.Serve(&deployer{}, options()...)
}

func options() []sdk.Option {
	return []sdk.Option{
		sdk.Name("mock"), sdk.Version(version), sdk.Types(mockv1alpha1.Type),
		sdk.ProviderConfigSchema(mockv1alpha1.Type, schema), sdk.ScheduleInConfig(),
	}
}
