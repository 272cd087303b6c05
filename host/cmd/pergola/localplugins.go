package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/telemetry/statuspage"
)

// localFlags are those of commands that start plugins themselves.
type localFlags struct {
	config, attach string
	verbose        bool
}

func (f *localFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "", "file with the HostConfiguration, whose verification, plugins and timeouts "+
		"are applied; without it everything has its default")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print to standard error what the plugins log")
}

// addAttachTo adds what a command needs that can call a plugin which runs already.
func (f *localFlags) addAttachTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.attach, "attach", "",
		"address of a plugin that was started by hand, such as unix:///tmp/hello/plugin.sock")
}

// oneOfFileAndAttach wants one argument, or --attach.
func (f *localFlags) oneOfFileAndAttach(args []string) error {
	switch {
	case f.attach == "" && len(args) != 1:
		return fmt.Errorf("expected one plugin, or --attach, but found %d arguments", len(args))
	case f.attach != "" && len(args) > 0:
		return fmt.Errorf("expected an argument or --attach, but found both %q and --attach", args[0])
	default:
		return nil
	}
}

// settings are those of the configuration.
func (f *localFlags) settings() (*config.HostConfiguration, error) {
	identity := defaultIdentity()
	if f.config == "" {
		return config.Default(identity), nil
	}
	return config.Load(f.config, identity)
}

// log is where the plugins log to.
func (f *localFlags) log(stderr io.Writer) *slog.Logger {
	if !f.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return textLog(stderr)
}

// textLog returns a log for people, without the time.
func textLog(out io.Writer) *slog.Logger {
	withoutTime := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
}

// options are those for the plugin that is attached, or else for those of a directory.
func (f *localFlags) options(settings *config.HostConfiguration, log *slog.Logger, dir string) plugin.Options {
	options := pluginOptions(settings, log, 0)
	if f.attach != "" {
		options.Attach = []string{f.attach}
	} else {
		options.Dir = dir
	}
	return options
}

// localPlugins are plugins that a command has started itself.
type localPlugins struct {
	set *plugin.Set
	// changed and woken keep one piece of news each: more would say no more to those who look afterwards.
	changed, woken chan struct{}
	end            context.CancelFunc
	ended          chan error
}

// startPlugins starts plugins, and waits until each of them runs or it is known why it does not. The caller closes
// them. ctx bounds the start alone.
func startPlugins(ctx context.Context, options plugin.Options) (*localPlugins, error) {
	l := &localPlugins{changed: make(chan struct{}, 1), woken: make(chan struct{}, 1), ended: make(chan error, 1)}
	var err error
	if l.set, err = plugin.Open(options, l); err != nil {
		return nil, err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	l.end = end
	go func() { l.ended <- l.set.Run(running) }()
	for !l.settled() {
		select {
		case <-l.changed:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for the plugins: %w", context.Cause(ctx)), l.close())
		}
	}
	return l, nil
}

// tellPassedOver names what is in the plugin directory and no plugin.
func (l *localPlugins) tellPassedOver(stderr io.Writer) error {
	names := l.set.PassedOver()
	if len(names) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(stderr, "passed over, because they are directories or not executable: %s\n",
		strings.Join(names, ", "))
	return err
}

// settled reports whether each plugin runs or it is known why it does not. One that runs may still be refused until it
// is known that nobody else claims what it claims.
func (l *localPlugins) settled() bool {
	admitted := map[string]bool{}
	for _, p := range l.set.Admitted() {
		admitted[p.Name()] = true
	}
	for _, s := range l.set.Status() {
		if s.Problem == nil && (s.State != plugin.Running || !admitted[s.Info.Name]) {
			return false
		}
	}
	return true
}

// close ends the plugins.
func (l *localPlugins) close() error {
	l.end()
	return <-l.ended
}

var _ plugin.Listener = (*localPlugins)(nil)

// Changed implements plugin.Listener.
func (l *localPlugins) Changed() { notify(l.changed) }

// WakeUp implements plugin.Listener. A command works on one item; to look at it once more for the sake of another one
// does no harm.
func (l *localPlugins) WakeUp(*plugin.Plugin, string, string) { notify(l.woken) }

func notify(news chan<- struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// defaultPluginDir is where a container image has its plugins.
const defaultPluginDir = "/plugins"

// pluginOptions are the options for the plugins of a host with these settings, but for where they are.
func pluginOptions(settings *config.HostConfiguration, log *slog.Logger, level slog.Level) plugin.Options {
	options := plugin.Options{
		Log:            log,
		LogLevel:       level,
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
		// A plugin whose entry is about its calls alone has no profile, so that its file may have any name.
		calls := config.Plugin{Workers: p.Workers, HostCluster: p.HostCluster, Config: p.Config}
		if !equality.Semantic.DeepEqual(p, calls) {
			options.Profiles[p.EffectiveFile(name)] = pluginProfile(name, p)
		}
	}
	return options
}

// installationOf gives plugins the installation that they mark with what they deploy.
func installationOf(installation *target.Installation, log *slog.Logger) plugin.Installation {
	return func(ctx context.Context) (string, error) { return installation.Mark(ctx, log) }
}

// modes are those of the sandbox for those of the configuration.
var modes = map[config.ConfinementMode]sandbox.Mode{
	config.ConfinementOff: sandbox.Off, config.ConfinementAuto: sandbox.Auto, config.ConfinementRequired: sandbox.Required,
}

func pluginProfile(name string, p config.Plugin) plugin.Profile {
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
