package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
)

// Plugins are the running plugins of a command.
type Plugins struct {
	Set *plugin.Set

	// Woken gets a message after each wake-up by a plugin. Several wake-ups may share one.
	Woken chan struct{}

	changed chan struct{}
	end     context.CancelFunc
	ended   chan error
}

// Start starts plugins and waits until each of them runs or has failed. ctx bounds the start alone. The caller closes
// the plugins.
func Start(ctx context.Context, options plugin.Options) (*Plugins, error) {
	p := &Plugins{changed: make(chan struct{}, 1), Woken: make(chan struct{}, 1), ended: make(chan error, 1)}
	var err error
	if p.Set, err = plugin.Open(options, p); err != nil {
		return nil, err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	p.end = end
	go func() { p.ended <- p.Set.Run(running) }()
	for !p.settled() {
		select {
		case <-p.changed:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for the plugins: %w", context.Cause(ctx)), p.Close())
		}
	}
	return p, nil
}

// ReportPassedOver names the files of the plugin directory that are no plugins.
func (p *Plugins) ReportPassedOver(stderr io.Writer) error {
	names := p.Set.PassedOver()
	if len(names) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(stderr, "passed over, because they are directories or not executable: %s\n",
		strings.Join(names, ", "))
	return err
}

// settled reports whether each plugin runs or has failed.
func (p *Plugins) settled() bool {
	admitted := map[string]bool{}
	for _, a := range p.Set.Admitted() {
		admitted[a.Name()] = true
	}
	for _, s := range p.Set.Status() {
		// A running plugin may be refused until the claims of all others are known.
		if s.Problem == nil && (s.State != plugin.Running || !admitted[s.Info.Name]) {
			return false
		}
	}
	return true
}

// Close ends the plugins.
func (p *Plugins) Close() error {
	p.end()
	return <-p.ended
}

var _ plugin.Listener = (*Plugins)(nil)

// Changed implements plugin.Listener.
func (p *Plugins) Changed() { notify(p.changed) }

// WakeUp implements plugin.Listener.
func (p *Plugins) WakeUp(*plugin.Plugin, string, string) {
	// A command has one item; a needless look at it does no harm.
	notify(p.Woken)
}

// Needs implements plugin.Listener: a command may call any of its plugins.
func (p *Plugins) Needs(*plugin.Plugin) bool { return true }

// WatchedItems implements plugin.Listener: a plugin watches by what it knows from its calls.
func (p *Plugins) WatchedItems(context.Context, *plugin.Plugin) ([]sdk.WatchedItem, error) {
	return nil, nil
}

// CallFor implements plugin.Listener.
func (p *Plugins) CallFor(context.Context, *plugin.Plugin, types.NamespacedName) (plugin.Call, error) {
	return plugin.Call{}, errors.New("a command has no watch")
}

// notify sends a message unless one is waiting.
func notify(messages chan<- struct{}) {
	select {
	case messages <- struct{}{}:
	default:
	}
}
