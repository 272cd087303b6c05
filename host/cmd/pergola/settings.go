package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/standalone"
)

// hostFlags are the flags of the host command.
type hostFlags struct {
	config     string
	kubeconfig string
	// hostKubeconfig is that of the cluster of the host's pods.
	hostKubeconfig string
	pluginDir      string
	attach         []string
	standalone     bool
	// Those below are fields of the HostConfiguration, too; see overrides.
	identity  string
	listen    string
	logLevel  string
	logFormat string
}

func (f *hostFlags) addTo(cmd *cobra.Command) {
	defaults := config.Default(defaultIdentity())
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "",
		"file with a HostConfiguration; without it everything has its default. Flags override its fields")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster with the DeployItems; without it $KUBECONFIG, or the cluster that this pod runs in")
	flags.StringVar(&f.hostKubeconfig, "host-kubeconfig", "",
		"kubeconfig of the cluster that the host's own pods run in; without it that of --kubeconfig")
	flags.StringVar(&f.pluginDir, "plugin-dir", defaultPluginDir, "directory with the deployer binaries")
	flags.StringArrayVar(&f.attach, "attach", nil,
		"address of a plugin that was started by hand, such as unix:///tmp/hello/plugin.sock; may be given several times. Without --plugin-dir no directory is read then")
	flags.BoolVar(&f.standalone, "standalone", false,
		"also set jobs: work without a Landscaper. Never use it beside one")
	flags.StringVar(&f.listen, "listen-address", defaults.ListenAddress, "address for /healthz, /readyz and /metrics")
	flags.StringVar(&f.identity, "identity", defaults.Identity, "name of this installation in the status of DeployItems")
	flags.StringVar(&f.logLevel, "log-level", defaults.Log.Level, "lowest level to log: debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", defaults.Log.Format, "json or text")
}

// override is a flag that overrides a field of the HostConfiguration.
type override struct {
	flag, field string
	apply       func(*hostFlags, *config.HostConfiguration)
}

func overrides() []override {
	return []override{
		{"identity", "identity", func(f *hostFlags, c *config.HostConfiguration) { c.Identity = f.identity }},
		{"listen-address", "listenAddress", func(f *hostFlags, c *config.HostConfiguration) { c.ListenAddress = f.listen }},
		{"log-level", "log.level", func(f *hostFlags, c *config.HostConfiguration) { c.Log.Level = f.logLevel }},
		{"log-format", "log.format", func(f *hostFlags, c *config.HostConfiguration) { c.Log.Format = f.logFormat }},
	}
}

// settings returns the configuration in the file, if one is named, with the flags in place of its fields. given tells which
// flags are on the command line; identity is the default. The error has a line for everything that is wrong with file and flags.
func (f *hostFlags) settings(given func(flag string) bool, identity string) (*config.HostConfiguration, error) {
	settings := config.Default(identity)
	var fileErr error
	if f.config != "" {
		settings, fileErr = config.Load(f.config, identity)
	}
	// Flags are checked for themselves, so that an error in the file and one in the flag that overrides it are both found.
	flags := config.Default(identity)
	byField := map[string]string{}
	for _, o := range overrides() {
		if !given(o.flag) {
			continue
		}
		byField[o.field] = o.flag
		o.apply(f, flags)
		if settings != nil {
			o.apply(f, settings)
		}
	}
	errs := []error{fileErr}
	for _, problem := range config.Validate(flags) {
		if flag, ok := byField[problem.Field]; ok {
			errs = append(errs, fmt.Errorf("--%s: %s", flag, problem.Detail))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return settings, nil
}

// jobOptions are the timeouts of standalone mode. One that is "none" is zero.
func jobOptions(settings *config.HostConfiguration) (standalone.Options, error) {
	pickup, _, err := settings.Timeouts.Pickup.Parse()
	if err != nil {
		return standalone.Options{}, fmt.Errorf("timeouts.pickup: %w", err)
	}
	progressing, _, err := settings.Timeouts.Progressing.Parse()
	if err != nil {
		return standalone.Options{}, fmt.Errorf("timeouts.progressing: %w", err)
	}
	return standalone.Options{PickupTimeout: pickup, ProgressingTimeout: progressing}, nil
}
