// Package local starts plugins within a command, and reads from files all data of their calls.
package local

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"github.com/pergola-deploy/pergola/host/internal/command/settings"
	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
)

// Flags are the flags of commands with plugins of their own.
type Flags struct {
	// Version of this program, reported to the plugins.
	Version string
	// Attach is the address of a running plugin, in place of a directory.
	Attach string
	// Verbose prints the logs of the plugins.
	Verbose bool

	config, pluginDir string
}

// AddTo adds the flags, without --attach.
func (f *Flags) AddTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "",
		"HostConfiguration file, for verification, plugins and timeouts (default: built-in defaults)")
	flags.BoolVarP(&f.Verbose, "verbose", "v", false, "print the logs of the plugins to standard error")
}

// AddPluginDirTo adds --plugin-dir for calls of the host's plugins, see HostOptions.
func (f *Flags) AddPluginDirTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.pluginDir, "plugin-dir", settings.PluginDir(), "directory with the plugins of the host")
}

// AddAttachTo adds --attach.
func (f *Flags) AddAttachTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.Attach, "attach", "",
		"address of a plugin that was started by hand, such as unix:///tmp/hello/plugin.sock")
}

// OneOfFileAndAttach requires one argument or --attach.
func (f *Flags) OneOfFileAndAttach(args []string) error {
	switch {
	case f.Attach == "" && len(args) != 1:
		return fmt.Errorf("expected one plugin, or --attach, but found %d arguments", len(args))
	case f.Attach != "" && len(args) > 0:
		return fmt.Errorf("expected an argument or --attach, but found both %q and --attach", args[0])
	default:
		return nil
	}
}

// Settings loads the HostConfiguration.
func (f *Flags) Settings() (*config.HostConfiguration, error) {
	identity := settings.DefaultIdentity()
	if f.config == "" {
		return config.Default(identity), nil
	}
	return config.Load(f.config, identity)
}

// Log returns the log for the records of plugins.
func (f *Flags) Log(stderr io.Writer) *slog.Logger {
	if !f.Verbose {
		return slog.New(slog.DiscardHandler)
	}
	return TextLog(stderr)
}

// TextLog returns a log for people, without the time.
func TextLog(out io.Writer) *slog.Logger {
	withoutTime := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
}

// Options returns the options for the attached plugin, or for the plugins of a directory.
func (f *Flags) Options(configured *config.HostConfiguration, log *slog.Logger, dir string) plugin.Options {
	options := settings.PluginOptions(configured, f.Version, log)
	if f.Attach != "" {
		options.Attach = []string{f.Attach}
	} else {
		options.Dir = dir
	}
	return options
}

// HostOptions returns the options for the plugin directory, or for the attached plugin, as those of a host of the
// cluster. The targetServiceAccount of a configuration counts unless the user has named one.
func (f *Flags) HostOptions(cluster *usercluster.Cluster, stderr io.Writer) (plugin.Options, error) {
	configured, err := f.Settings()
	if err != nil {
		return plugin.Options{}, err
	}
	cluster.TargetAccount = cmp.Or(cluster.TargetAccount, configured.TargetServiceAccount)
	if _, missing := os.Stat(f.pluginDir); missing != nil && f.Attach == "" {
		return plugin.Options{},
			fmt.Errorf("find the plugins: %w; name the plugin directory of the host with --plugin-dir", missing)
	}
	log := f.Log(stderr)
	options := f.Options(configured, log, f.pluginDir)
	options.Installation = settings.Installation(target.NewInstallation(cluster), log)
	return options, nil
}
