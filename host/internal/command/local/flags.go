// Package local starts plugins within a command, and reads from files all data of their calls.
package local

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/pergola-deploy/pergola/host/internal/command/settings"
	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// Flags are the flags of commands with plugins of their own.
type Flags struct {
	// Version of this program, reported to the plugins.
	Version string
	// Attach is the address of a running plugin, in place of a directory.
	Attach string
	// Verbose prints the logs of the plugins.
	Verbose bool

	config string
}

// AddTo adds the flags, without --attach.
func (f *Flags) AddTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "",
		"HostConfiguration file, for verification, plugins and timeouts (default: built-in defaults)")
	flags.BoolVarP(&f.Verbose, "verbose", "v", false, "print the logs of the plugins to standard error")
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
