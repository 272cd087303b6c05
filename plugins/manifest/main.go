// Command manifest is the plugin for plain Kubernetes manifests: it deploys items of type
// landscaper.gardener.cloud/kubernetes-manifest.
package main

import (
	"context"

	"github.com/pergola-deploy/pergola/plugins/internal/tracing"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/config"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/deployer"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/settings"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// version is set when the plugin is built for a release.
var version = "dev"

func main() {
	defer tracing.Start(context.Background(), "manifest", version)()
	sdk.Serve(deployer.New("pergola-manifest/"+version), sdk.Name("manifest"), sdk.Version(version),
		sdk.Types(v1alpha2.Type), sdk.LatePickUp(), sdk.ScheduleInConfig(),
		sdk.ConfigSchema(settings.Schema), sdk.ProviderConfigSchema(v1alpha2.Type, config.Schema))
}
