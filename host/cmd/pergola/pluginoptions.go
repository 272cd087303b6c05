package main

import (
	"log/slog"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/host/internal/telemetry/statuspage"
)

// defaultPluginDir is where a container image has its plugins.
const defaultPluginDir = "/plugins"

// pluginOptions are the options for the plugins of a host with these settings, but for where they are.
func pluginOptions(settings *config.HostConfiguration, log *slog.Logger, level slog.Level) plugin.Options {
	options := plugin.Options{
		Log:            log,
		LogLevel:       level,
		HostVersion:    version,
		StartTimeout:   settings.Timeouts.PluginStart.Duration,
		StopGrace:      settings.Timeouts.PluginStop.Duration,
		Silence:        settings.Timeouts.PluginSilence.Duration,
		Configs:        map[string][]byte{},
		Profiles:       map[string]plugin.Profile{},
		DefaultProfile: plugin.Profile{Confinement: sandbox.Auto},
		RequireSums:    settings.Verification == config.VerificationRequired,
	}
	for name, p := range settings.Plugins {
		options.Configs[name] = p.Config
		// A plugin whose entry is about its calls alone has no profile, so that its file may have any name.
		calls := config.Plugin{Workers: p.Workers, HostCluster: p.HostCluster, Config: p.Config}
		if !equality.Semantic.DeepEqual(p, calls) {
			options.Profiles[p.EffectiveFile(name)] = pluginProfile(name, p)
		}
	}
	return options
}

// modes are those of the sandbox for those of the configuration.
var modes = map[config.ConfinementMode]sandbox.Mode{
	config.ConfinementOff: sandbox.Off, config.ConfinementAuto: sandbox.Auto, config.ConfinementRequired: sandbox.Required,
}

func pluginProfile(name string, p config.Plugin) plugin.Profile {
	return plugin.Profile{
		Plugin:      name,
		SHA256:      p.SHA256,
		Args:        p.Args,
		Environment: p.Environment,
		Memory:      uint64(p.Memory),    //nolint:gosec // it is not negative
		OpenFiles:   uint64(p.OpenFiles), //nolint:gosec // it is not negative
		Confinement: modes[p.Confinement.EffectiveMode()],
		Read:        p.Confinement.Read,
		Write:       p.Confinement.Write,
	}
}

// programEntry is what a HostConfiguration says of the program of one plugin.
type programEntry struct {
	File   string `json:"file,omitempty"`
	SHA256 string `json:"sha256"`
}

// verificationOf is the part of a HostConfiguration by which a host runs the programs of a list and no others.
func verificationOf(list *statuspage.PluginList) any {
	entries := map[string]programEntry{}
	for _, p := range list.Plugins {
		entry, name := programEntry{SHA256: p.SHA256}, p.File
		if p.Name != "" && p.Name != p.File {
			entry.File, name = p.File, p.Name
		}
		if p.SHA256 != "" { // it is a file
			entries[name] = entry
		}
	}
	return map[string]any{"plugins": entries, "verification": config.VerificationRequired}
}
