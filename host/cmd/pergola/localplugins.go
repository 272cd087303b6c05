package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// localFlags are those of commands that start plugins themselves.
type localFlags struct {
	config  string
	verbose bool
}

func (f *localFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "",
		"file with the HostConfiguration, whose verification, plugins and timeouts are applied; without it everything has its default")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print to standard error what the plugins log")
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
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// localPlugins are plugins that a command has started itself.
type localPlugins struct {
	*plugin.Set
	*localListener

	end   context.CancelFunc
	ended chan error
}

// startPlugins starts plugins. The caller closes them. ctx bounds the start alone.
func startPlugins(ctx context.Context, options plugin.Options) (*localPlugins, error) {
	l := &localPlugins{localListener: newLocalListener(), ended: make(chan error, 1)}
	var err error
	if l.Set, err = plugin.Open(options, l.localListener); err != nil {
		return nil, err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	l.end = end
	go func() { l.ended <- l.Run(running) }()
	return l, nil
}

// settled waits until each plugin runs or it is known why it does not.
func (l *localPlugins) settled(ctx context.Context) error {
	for {
		if l.areSettled() {
			return nil
		}
		select {
		case <-l.changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the plugins: %w", context.Cause(ctx))
		}
	}
}

// areSettled tells that. A plugin that runs may still be refused until it is known that nobody else claims what it claims.
func (l *localPlugins) areSettled() bool {
	admitted := map[string]bool{}
	for _, p := range l.Admitted() {
		admitted[p.Name()] = true
	}
	for _, s := range l.Status() {
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

// localListener tells those who wait that something has happened.
type localListener struct {
	changed chan struct{}
	// woken holds what plugins say about one item: its namespace and name.
	woken chan [2]string
}

var _ plugin.Listener = (*localListener)(nil)

// newLocalListener returns a listener that keeps one piece of news of each kind: more would say no more to those who look afterwards.
func newLocalListener() *localListener {
	return &localListener{changed: make(chan struct{}, 1), woken: make(chan [2]string, 1)}
}

// Changed implements plugin.Listener.
func (l *localListener) Changed() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// WakeUp implements plugin.Listener. A command works on one item.
func (l *localListener) WakeUp(_ *plugin.Plugin, namespace, name string) {
	select {
	case l.woken <- [2]string{namespace, name}:
	default:
	}
}

func addAttach(flags *pflag.FlagSet, address *string) {
	flags.StringVar(address, "attach", "", "address of a plugin that was started by hand, such as unix:///tmp/hello/plugin.sock")
}

// oneOfFileAndAttach wants one argument, or --attach.
func oneOfFileAndAttach(args []string, attach string) error {
	switch {
	case attach == "" && len(args) != 1:
		return fmt.Errorf("expected one plugin, or --attach, but found %d arguments", len(args))
	case attach != "" && len(args) > 0:
		return fmt.Errorf("expected an argument or --attach, but found both %q and --attach", args[0])
	default:
		return nil
	}
}
