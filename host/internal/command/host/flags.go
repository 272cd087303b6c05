package host

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/settings"
	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/standalone"
)

// hostFlags are the flags of the host command.
type hostFlags struct {
	config     string
	kubeconfig string
	// hostKubeconfig is the kubeconfig of the cluster of the host's pods.
	hostKubeconfig string
	pluginDir      string
	attach         []string
	standalone     bool
	// fields has the values of the flags in overrides.
	fields *config.HostConfiguration
}

func (f *hostFlags) addTo(cmd *cobra.Command) {
	f.fields = config.Default(settings.DefaultIdentity())
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "",
		"HostConfiguration file (default: built-in defaults). Flags override its fields")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster with the DeployItems (default: $KUBECONFIG, or the cluster of this pod)")
	flags.StringVar(&f.hostKubeconfig, "host-kubeconfig", "",
		"kubeconfig of the cluster with the pods of the host (default: the value of --kubeconfig)")
	flags.StringVar(&f.pluginDir, "plugin-dir", settings.PluginDir(), "directory with the plugins")
	flags.StringArrayVar(&f.attach, "attach", nil,
		"address of a plugin that was started by hand, such as unix:///tmp/hello/plugin.sock; may be given several times. "+
			"No directory is read then, except for a given --plugin-dir")
	flags.BoolVar(&f.standalone, "standalone", false,
		"also set jobs: work without a Landscaper. Never use it beside a Landscaper")
	for _, o := range overrides {
		flags.StringVar(o.of(f.fields), o.flag, *o.of(f.fields), o.usage)
	}
}

// overrides are the flags for fields of the HostConfiguration.
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

// settings returns the configuration in the file, or the defaults, with the given flags in place of fields. The error
// has a line for each problem of file and flags.
func (f *hostFlags) settings(given func(flag string) bool, identity string) (*config.HostConfiguration, error) {
	settings := config.Default(identity)
	var errs []error
	if f.config != "" {
		var err error
		settings, err = config.Load(f.config, identity)
		errs = append(errs, err)
	}
	// Flags are validated separately, so that errors in a field and in its flag are both found.
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

// standaloneOptions returns the timeouts of standalone mode; 0 for "none".
func standaloneOptions(settings *config.HostConfiguration) (standalone.Options, error) {
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
