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
	// fields are those of the HostConfiguration that flags override.
	fields *config.HostConfiguration
}

func (f *hostFlags) addTo(cmd *cobra.Command) {
	f.fields = config.Default(defaultIdentity())
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "",
		"file with a HostConfiguration; without it everything has its default. Flags override its fields")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster with the DeployItems; without it $KUBECONFIG, or the cluster that this pod runs in")
	flags.StringVar(&f.hostKubeconfig, "host-kubeconfig", "",
		"kubeconfig of the cluster that the host's own pods run in; without it that of --kubeconfig")
	flags.StringVar(&f.pluginDir, "plugin-dir", defaultPluginDir, "directory with the deployer binaries")
	flags.StringArrayVar(&f.attach, "attach", nil,
		"address of a plugin that was started by hand, such as unix:///tmp/hello/plugin.sock; may be given several times. "+
			"Without --plugin-dir no directory is read then")
	flags.BoolVar(&f.standalone, "standalone", false,
		"also set jobs: work without a Landscaper. Never use it beside one")
	for _, o := range overrides {
		flags.StringVar(o.of(f.fields), o.flag, *o.of(f.fields), o.usage)
	}
}

// overrides are the flags that override a field of the HostConfiguration.
var overrides = []struct {
	flag, field, usage string
	of                 func(*config.HostConfiguration) *string
}{
	{
		"listen-address", "listenAddress", "address for /healthz, /readyz and /metrics",
		func(c *config.HostConfiguration) *string { return &c.ListenAddress },
	},
	{
		"identity", "identity", "name of this installation in the status of DeployItems",
		func(c *config.HostConfiguration) *string { return &c.Identity },
	},
	{
		"log-level", "log.level", "lowest level to log: debug, info, warn or error",
		func(c *config.HostConfiguration) *string { return &c.Log.Level },
	},
	{
		"log-format", "log.format", "json or text",
		func(c *config.HostConfiguration) *string { return &c.Log.Format },
	},
}

// settings returns the configuration in the file, if one is named, with the flags in place of its fields. given tells
// which flags are on the command line; identity is the default. The error has a line for everything that is wrong with
// file and flags.
func (f *hostFlags) settings(given func(flag string) bool, identity string) (*config.HostConfiguration, error) {
	settings := config.Default(identity)
	var errs []error
	if f.config != "" {
		var err error
		settings, err = config.Load(f.config, identity)
		errs = append(errs, err)
	}
	// Flags are checked for themselves, so that an error in the file and one in the flag that overrides it are both
	// found.
	problems := config.Validate(f.fields)
	for _, o := range overrides {
		if !given(o.flag) {
			continue
		}
		if settings != nil {
			*o.of(settings) = *o.of(f.fields)
		}
		for _, problem := range problems {
			if problem.Field == o.field {
				errs = append(errs, fmt.Errorf("--%s: %s", o.flag, problem.Detail))
			}
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
