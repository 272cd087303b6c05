// Command manifest is the plugin that deploys plain Kubernetes manifests: deploy items of type
// landscaper.gardener.cloud/kubernetes-manifest.
package main

import (
	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/deployer"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// version is set when the plugin is built for a release.
var version = "dev"

func main() {
	targets := targetclient.NewCache("pergola-manifest/" + version)
	sdk.Serve(deployer.New(targets), sdk.Name("manifest"), sdk.Version(version), sdk.Types(v1alpha2.Type))
}
