package main

import (
	"log/slog"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/host/internal/telemetry/statuspage"
)

// defaultPluginDir is where a container image has its plugins.
const defaultPluginDir = "/plugins"

// pluginOptions are the options for the plugins of a host with these settings, but for where they are.
func pluginOptions(settings *config.HostConfiguration, log *slog.Logger, level slog.Level) plugin.Options {
	return plugin.Options{
		Log:            log,
		LogLevel:       level,
		HostVersion:    version,
		StartTimeout:   settings.Timeouts.PluginStart.Duration,
		StopGrace:      settings.Timeouts.PluginStop.Duration,
		Silence:        settings.Timeouts.PluginSilence.Duration,
		Configs:        pluginConfigs(settings),
		Profiles:       pluginProfiles(settings),
		DefaultProfile: plugin.Profile{Confinement: sandbox.Auto},
		RequireSums:    settings.Verification == config.VerificationRequired,
	}
}

// pluginConfigs are the configuration documents of the plugins that the configuration names.
func pluginConfigs(settings *config.HostConfiguration) map[string][]byte {
	configs := make(map[string][]byte, len(settings.Plugins))
	for name, p := range settings.Plugins {
		configs[name] = p.Config
	}
	return configs
}

// pluginWorkers are the workers of the plugins that have a number of their own.
func pluginWorkers(settings *config.HostConfiguration) map[string]int {
	workers := make(map[string]int, len(settings.Plugins))
	for name, p := range settings.Plugins {
		workers[name] = p.Workers
	}
	return workers
}

// pluginProfiles say by the names of files how the plugins are run that are not all run by default. A plugin whose entry is about its
// calls alone has no profile, so that its file may have any name.
func pluginProfiles(settings *config.HostConfiguration) map[string]plugin.Profile {
	profiles := map[string]plugin.Profile{}
	for name, p := range settings.Plugins {
		if concernsProcess(p) {
			profiles[p.EffectiveFile(name)] = pluginProfile(name, p)
		}
	}
	return profiles
}

// concernsProcess tells whether an entry has anything to say about the process of the plugin.
func concernsProcess(p config.Plugin) bool {
	c := p.Confinement
	return p.File != "" || p.SHA256 != "" || len(p.Args) > 0 || len(p.Environment) > 0 || p.Memory != 0 || p.OpenFiles != 0 ||
		c.Mode != "" || len(c.Read) > 0 || len(c.Write) > 0
}

func pluginProfile(name string, p config.Plugin) plugin.Profile {
	return plugin.Profile{
		Plugin:      name,
		SHA256:      p.SHA256,
		Args:        p.Args,
		Environment: p.Environment,
		Memory:      uint64(p.Memory),    //nolint:gosec // it is not negative
		OpenFiles:   uint64(p.OpenFiles), //nolint:gosec // it is not negative
		Confinement: confinementMode(p.Confinement.EffectiveMode()),
		Read:        p.Confinement.Read,
		Write:       p.Confinement.Write,
	}
}

// confinementMode is the mode of the sandbox for one of the configuration.
func confinementMode(mode config.ConfinementMode) sandbox.Mode {
	switch mode {
	case config.ConfinementOff:
		return sandbox.Off
	case config.ConfinementRequired:
		return sandbox.Required
	default:
		return sandbox.Auto
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
