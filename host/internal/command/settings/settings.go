// Package settings translates a HostConfiguration for the plugins of a host or of a command.
package settings

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/host/internal/target"
)

// PodNameVariable is the environment variable with the name of the host's pod.
const PodNameVariable = "MY_POD_NAME"

// PluginDir is the plugin directory of container images, or else the one beside the program, as in the archives of a
// release.
func PluginDir() string {
	program, err := os.Executable()
	if err != nil {
		return pluginDirOfImages
	}
	return pluginDir(pluginDirOfImages, filepath.Join(filepath.Dir(program), "plugins"))
}

const pluginDirOfImages = "/plugins"

// pluginDir is the first of two directories, or the second one if that alone exists.
func pluginDir(first, second string) string {
	if !isDir(first) && isDir(second) {
		return second
	}
	return first
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// DefaultIdentity is the name of the pod or of the machine.
func DefaultIdentity() string {
	machine, _ := os.Hostname() // without a name, the last resort is taken
	return cmp.Or(os.Getenv(PodNameVariable), machine, "pergola")
}

// PluginOptions returns the options for the plugins of a host of this version, without their places.
func PluginOptions(settings *config.HostConfiguration, version string, log *slog.Logger) plugin.Options {
	options := plugin.Options{
		Log:            log,
		HostVersion:    version,
		StartTimeout:   settings.Timeouts.PluginStart.Duration,
		StopGrace:      settings.Timeouts.Shutdown.Duration,
		Silence:        settings.Timeouts.PluginSilence.Duration,
		Configs:        map[string][]byte{},
		Profiles:       map[string]plugin.Profile{},
		DefaultProfile: plugin.Profile{Confinement: sandbox.Auto},
		RequireSums:    settings.Verification == config.VerificationRequired,
		CacheDir:       settings.PluginCache,
	}
	if dir, err := os.UserCacheDir(); err == nil && options.CacheDir == "" {
		options.CacheDir = filepath.Join(dir, "pergola", "plugins")
	}
	for name, p := range settings.Plugins {
		options.Configs[name] = p.Config
		// An entry about calls alone is no profile: the file may have any name.
		calls := config.Plugin{Workers: p.Workers, HostCluster: p.HostCluster, Config: p.Config}
		if !equality.Semantic.DeepEqual(p, calls) {
			options.Profiles[p.EffectiveFile(name)] = profile(name, p)
		}
	}
	return options
}

// Installation returns the installation for the marks of deployed objects.
func Installation(installation *target.Installation, log *slog.Logger) plugin.Installation {
	return func(ctx context.Context) (string, error) { return installation.Mark(ctx, log) }
}

var modes = map[config.ConfinementMode]sandbox.Mode{
	config.ConfinementOff: sandbox.Off, config.ConfinementAuto: sandbox.Auto, config.ConfinementRequired: sandbox.Required,
}

func profile(name string, p config.Plugin) plugin.Profile {
	return plugin.Profile{
		Plugin:      name,
		SHA256:      p.SHA256,
		Image:       p.Image,
		Path:        p.Path,
		Args:        p.Args,
		Environment: p.Environment,
		Memory:      uint64(p.Memory),    //nolint:gosec // it is not negative
		OpenFiles:   uint64(p.OpenFiles), //nolint:gosec // it is not negative
		Confinement: modes[p.Confinement.EffectiveMode()],
		Read:        p.Confinement.Read,
		Write:       p.Confinement.Write,
	}
}
