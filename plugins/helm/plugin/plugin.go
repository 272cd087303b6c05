// Package plugin makes a program of the helm deployer. With it the author of a plugin can build one with more sources
// of charts; see package chart. Such a program takes the place of Pergola's own in the plugin directory: both serve
// deploy items of type landscaper.gardener.cloud/helm, and have the same configuration.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/deployer"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/settings"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/worker"
	"github.com/pergola-deploy/pergola/plugins/internal/tracing"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// name of the plugin. It is part of the names of its locks.
const name = "helm"

// Exit codes for a failed start, those of sdk.Serve.
const (
	exitFailed        = 1
	exitMisconfigured = 2
)

// Option is an option of Serve.
type Option func(*options)

type options struct {
	resolvers map[chart.Field]chart.Resolver
}

// WithResolver sets the resolver for the charts of a field, one of the constants in package chart. Without one,
// fromResource is a mistake of the user, and the deployer itself reads the component of resourceRef. The last one for
// a field counts.
func WithResolver(field chart.Field, resolver chart.Resolver) Option {
	return func(o *options) { o.resolvers[field] = resolver }
}

// Serve is the main function of a helm plugin, with the contract of sdk.Serve. version is the version of the program,
// free text, semantic version preferred.
//
// The program also starts itself as a process of Helm, again and again. So a caller must do nothing slow or with
// effects before Serve, and write nothing to standard output.
func Serve(version string, opts ...Option) {
	worker.Main(client{})
	o := options{resolvers: map[chart.Field]chart.Resolver{}}
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.check(); err != nil {
		end(exitMisconfigured, err)
	}
	d, err := deployer.New(o.deployer(version))
	if err != nil {
		end(exitFailed, fmt.Errorf("%s %s cannot serve: %w", name, version, err))
	}
	defer tracing.Start(context.Background(), name, version)()
	sdk.Serve(d, served(version)...)
}

// end ends the program. The error has to be the last line of its output, since the host shows only this one.
func end(code int, err error) {
	fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", "; "))
	os.Exit(code)
}

// check returns all mistakes in the options.
func (o *options) check() error {
	var errs []error
	for _, field := range slices.Sorted(maps.Keys(o.resolvers)) {
		if field != chart.ResourceRef && field != chart.FromResource {
			errs = append(errs, fmt.Errorf("plugin.WithResolver: expected the field %s or %s, but found %q",
				chart.ResourceRef, chart.FromResource, field))
		}
		if o.resolvers[field] == nil {
			errs = append(errs, fmt.Errorf("plugin.WithResolver: the resolver for %q is nil", field))
		}
	}
	return errors.Join(errs...)
}

// served returns the options for the sdk.
func served(version string) []sdk.Option {
	return []sdk.Option{
		sdk.Name(name), sdk.Version(version), sdk.Types(v1alpha1.Type), sdk.ConfigSchema(settings.Schema),
		sdk.ProviderConfigSchema(v1alpha1.Type, config.Schema), sdk.ContextCredentials(),
		sdk.ContextOCMConfig(), sdk.LatePickUp(), sdk.ScheduleInConfig(),
	}
}

// deployer returns the options of the deployer.
func (o *options) deployer(version string) deployer.Options {
	return deployer.Options{
		UserAgent: "pergola-helm/" + version,
		Helm: func(workers int, log *slog.Logger) helm.Helm {
			return worker.New(worker.Options{Workers: workers, Log: log})
		},
		CacheDir:  cacheDir(),
		Resolvers: o.resolvers,
		Log:       slog.New(processLog{}),
	}
}

// cacheDir is the directory for charts, in the user's cache directory. The host makes it for this process alone and
// removes it with the process, unless the operator passes the variable XDG_CACHE_HOME to the plugin.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir() // of a process without a home; no host starts such a process
	}
	return filepath.Join(dir, "pergola", "charts")
}

// client is the Helm library. It is for workers only, and set up on use, because its setup changes the process.
type client struct{}

var _ helm.Helm = client{}

// Run implements helm.Helm.
func (client) Run(ctx context.Context, req *helm.Request, observer helm.Observer) (*helm.Result, error) {
	return helm3.New().Run(ctx, req, observer)
}
