// Package plugin serves the manifest plugin.
package plugin

import (
	"context"

	"github.com/pergola-deploy/pergola/plugins/internal/tracing"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/config"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/deployer"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/settings"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// Serve is the main function of the plugin.
func Serve(version string) {
	defer tracing.Start(context.Background(), "manifest", version)()
	sdk.Serve(deployer.New("pergola-manifest/"+version), sdk.Name("manifest"), sdk.Version(version),
		sdk.Types(v1alpha2.Type), sdk.LatePickUp(), sdk.ScheduleInConfig(),
		sdk.ConfigSchema(settings.Schema), sdk.ProviderConfigSchema(v1alpha2.Type, config.Schema))
}
