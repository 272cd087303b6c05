// Package plugin makes a program of the container deployer. Its purpose is that the author of a plugin can build one
// that knows what references to components refer to; see package content. Such a program takes the place of Pergola's
// own in the plugin directory: both serve deploy items of type landscaper.gardener.cloud/container, and have the same
// configuration.
package plugin

import (
	"context"
	"os"
	"path/filepath"

	"github.com/pergola-deploy/pergola/plugins/container/content"
	"github.com/pergola-deploy/pergola/plugins/container/internal/deployer"
	"github.com/pergola-deploy/pergola/plugins/internal/tracing"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// name of the plugin. It is part of the names of its locks.
const name = "container"

// Option adds something to what Serve serves.
type Option func(*deployer.Options)

// WithResolver has a resolver asked for references to components, before the deployer looks for them in OCI registries.
// The last one counts.
func WithResolver(resolver content.Resolver) Option {
	return func(o *deployer.Options) { o.Resolver = resolver }
}

// Serve is the main function of a container plugin; all that is said of sdk.Serve goes for it. version is that of the
// program, free text, semantic version preferred.
func Serve(version string, opts ...Option) {
	o := deployer.Options{UserAgent: "pergola-container/" + version, CacheDir: cacheDir()}
	for _, opt := range opts {
		opt(&o)
	}
	defer tracing.Start(context.Background(), name, version)()
	sdk.Serve(deployer.New(o), sdk.Name(name), sdk.Version(version), sdk.Types(v1alpha1.Type),
		sdk.ConfigSchema(deployer.SettingsSchema), sdk.ProviderConfigSchema(v1alpha1.Type, deployer.ConfigSchema),
		sdk.ContextCredentials(), sdk.ContextOCMConfig(), sdk.HostClusterAccess(), sdk.LatePickUp(), sdk.ScheduleInConfig())
}

// cacheDir is where components are kept: in the user's directory for such things, which the host has made for this
// process alone and removes with it, unless the operator lets the plugin have the variable XDG_CACHE_HOME.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir() // of a process without a home, which no host starts
	}
	return filepath.Join(dir, "pergola", "components")
}
