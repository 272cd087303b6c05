// Package plugin is the container deployer as a program, for authors of plugins with a resolver of their own for
// references to components; see package content. Such a program replaces Pergola's own in the plugin directory: both
// serve items of type landscaper.gardener.cloud/container, and have the same configuration.
package plugin

import (
	"context"
	"os"
	"path/filepath"

	"github.com/pergola-deploy/pergola/plugins/container/content"
	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/deployer"
	"github.com/pergola-deploy/pergola/plugins/internal/tracing"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// name of the plugin; it is part of the names of its locks.
const name = "container"

// Option adds something to the plugin of Serve.
type Option func(*deployer.Options)

// WithResolver has references to components resolved by a Resolver, and only then by the deployer in OCI registries.
// The last one counts.
func WithResolver(resolver content.Resolver) Option {
	return func(o *deployer.Options) { o.Resolver = resolver }
}

// Serve is the main function of a container plugin; the documentation of sdk.Serve applies to it. version is the
// version of the program: free text, semantic version preferred.
func Serve(version string, opts ...Option) {
	o := deployer.Options{UserAgent: "pergola-container/" + version, CacheDir: cacheDir()}
	for _, opt := range opts {
		opt(&o)
	}
	defer tracing.Start(context.Background(), name, version)()
	sdk.Serve(deployer.New(o), sdk.Name(name), sdk.Version(version), sdk.Types(v1alpha1.Type),
		sdk.ConfigSchema(config.SettingsSchema), sdk.ProviderConfigSchema(v1alpha1.Type, config.Schema),
		sdk.ContextCredentials(), sdk.ContextOCMConfig(), sdk.HostClusterAccess(), sdk.LatePickUp(), sdk.ScheduleInConfig())
}

// cacheDir returns the directory of the cache of components, in the user's cache directory. The host makes that for
// this process alone and removes it with the process, unless the operator passes the variable XDG_CACHE_HOME to the
// plugin.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir() // for a process without a home; hosts start none
	}
	return filepath.Join(dir, "pergola", "components")
}
