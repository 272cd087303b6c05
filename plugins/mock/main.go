// Command mock is the mock deployer: it deploys nothing and ends jobs as their provider configuration says. It is for tests of
// everything around deployers, and for seeing what a DeployItem goes through.
package main

import (
	"github.com/pergola-deploy/pergola/sdk"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
)

// version is set by the linker.
var version = "0.0.0-dev"

func main() {
	sdk.Serve(&deployer{}, sdk.Name("mock"), sdk.Version(version), sdk.Types(mockv1alpha1.Type))
}
