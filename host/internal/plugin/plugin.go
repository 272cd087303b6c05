package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// State is where a plugin is in its life.
type State string

// The states of a plugin.
const (
	// Starting: its process is being started and asked who it is.
	Starting State = "Starting"
	// Running: it takes calls.
	Running State = "Running"
	// Backoff: it could not be started or has ended; it is started again after a pause.
	Backoff State = "Backoff"
	// Refused: it is not used at all; Status.Problem says why.
	Refused State = "Refused"
	// Stopped: the host is shutting down.
	Stopped State = "Stopped"
)

const (
	// askTimeout bounds the calls that a plugin must answer at once.
	askTimeout = 10 * time.Second
	// watchPause is how long the host waits before it opens the wake-up stream again.
	watchPause = time.Second
)

// Plugin is one file of the plugin directory with its supervisor.
type Plugin struct {
	file     string
	path     string
	settings *settings
	log      *slog.Logger

	mu       sync.Mutex
	state    State
	problem  error
	info     *Info // what it said when it ran first
	process  *process
	restarts int
	settled  bool // the first attempt has come to an end, good or bad
}

// Status is what there is to see of a plugin.
type Status struct {
	// File in the plugin directory.
	File string
	// State of the plugin.
	State State
	// Problem says what is wrong; nil if nothing is.
	Problem error
	// Info is what the plugin says about itself; nil if it has never run.
	Info *Info
	// Restarts counts how often its process was started after the first time.
	Restarts int
}

// Name is the name that the plugin has given itself; empty if it has never run.
func (p *Plugin) Name() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.info == nil {
		return ""
	}
	return p.info.Name
}

// Info is what the plugin says about itself; the zero Info if it has never run.
func (p *Plugin) Info() Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.info == nil {
		return Info{}
	}
	return *p.info
}

func (p *Plugin) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Status{File: p.file, State: p.state, Problem: p.problem, Info: p.info, Restarts: p.restarts}
}

// Call carries out one operation and blocks until the plugin has given its result. When ctx ends the plugin is asked to stop
// and, if it does not, cancelled a moment later; when the deadline of the call passes it is cancelled at once.
//
// The error is ErrNotRunning, ErrCrashed, ErrProtocol, the cause of ctx, or context.DeadlineExceeded, possibly wrapped. What
// goes wrong within the deployer is no error but an Outcome.
func (p *Plugin) Call(ctx context.Context, op Operation, c Call, observer Observer) (*Outcome, error) {
	p.mu.Lock()
	proc := p.process
	p.mu.Unlock()
	if proc == nil {
		return nil, ErrNotRunning
	}
	return proc.call(ctx, op, c, p.settings.stopGrace, observer)
}

// supervise keeps the plugin running until ctx ends, and then ends it. It is the only one that starts its process.
func (p *Plugin) supervise(ctx context.Context) {
	failures := 0
	for restarts := 0; ctx.Err() == nil; restarts++ {
		p.set(func() { p.state, p.restarts = Starting, restarts })
		lived, err := p.run(ctx)
		if ctx.Err() != nil {
			break
		}
		if lived >= stableAfter {
			failures = 0
		}
		pause := backoff(failures, p.settings.random())
		failures++
		p.log.Error("plugin is not running; it is started again", "error", err.Error(), "pause", pause.String())
		p.set(func() { p.state, p.problem, p.settled = Backoff, err, true })
		timer := p.settings.clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
	p.set(func() { p.state = Stopped })
}

// run is one life of the process: it starts, says who it is, takes calls and ends. It returns how long the process took calls,
// and why it ended.
func (p *Plugin) run(ctx context.Context) (lived time.Duration, err error) {
	proc, err := launch(ctx, p.path, p.settings.socketDir, p.settings.logLevel, p.settings.startTimeout, p.log)
	if err != nil {
		return 0, err
	}
	defer proc.stop()
	info, err := p.introduce(ctx, proc)
	if err != nil {
		return 0, err
	}
	since := p.settings.clock.Now()
	p.log.Info("plugin is running", "name", info.Name, "version", info.Version, "sdk", info.SDKVersion, "types", info.Types)
	p.set(func() { p.state, p.problem, p.info, p.process, p.settled = Running, nil, info, proc, true })
	defer p.set(func() { p.process = nil })

	watchCtx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { p.watch(watchCtx, proc, info) })
	defer watching.Wait()
	defer cancel()

	select {
	case <-ctx.Done():
		return p.settings.clock.Since(since), ctx.Err()
	case <-proc.ended():
		return p.settings.clock.Since(since), fmt.Errorf("its process ended: %s", proc.runner.cmd.ProcessState)
	}
}

// introduce asks the plugin who it is and configures it.
func (p *Plugin) introduce(ctx context.Context, proc *process) (*Info, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := proc.client.GetInfo(ctx, &deployerv1.GetInfoRequest{HostVersion: p.settings.hostVersion})
	if err != nil {
		return nil, fmt.Errorf("ask the plugin who it is: %w", err)
	}
	info, err := infoFromWire(answer)
	if err != nil {
		return nil, fmt.Errorf("is refused for what it says about itself: %w", err)
	}
	if before := p.Info(); before.Name != "" && (before.Name != info.Name || !slices.Equal(before.Types, info.Types)) {
		return nil, fmt.Errorf("has become another plugin (%q for %q instead of %q for %q); restart the host to use it",
			info.Name, info.Types, before.Name, before.Types)
	}
	if err := p.configure(ctx, proc, &info); err != nil {
		return nil, err
	}
	return &info, nil
}

// configure hands over the configuration document, in each life of the process.
func (p *Plugin) configure(ctx context.Context, proc *process, info *Info) error {
	document := p.settings.configs[info.Name]
	if !info.Capabilities.Configure {
		if len(document) > 0 {
			return fmt.Errorf("is refused: there is configuration for it, but the plugin %q takes none; remove plugins.%s.config from the host configuration",
				info.Name, info.Name)
		}
		return nil
	}
	configured, err := proc.client.Configure(ctx, &deployerv1.ConfigureRequest{Document: document})
	if err != nil {
		return fmt.Errorf("configure the plugin: %w", err)
	}
	var problems []error
	for _, problem := range configured.GetProblems() {
		problems = append(problems, fmt.Errorf("%s: %s", bounded(problem.GetField()), bounded(problem.GetMessage())))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("the plugin refuses its configuration: %w", err)
	}
	return nil
}

// watch passes the plugin's wake-ups on until ctx ends or the process does.
func (p *Plugin) watch(ctx context.Context, proc *process, info *Info) {
	if !info.Capabilities.Watch {
		return
	}
	for {
		if err := p.forwardWakeUps(ctx, proc); ctx.Err() == nil {
			p.log.Warn("plugin stopped sending wake-ups; its items are polled until it is asked again", "error", err.Error())
		}
		timer := p.settings.clock.NewTimer(watchPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// forwardWakeUps passes wake-ups on until the stream ends; the error says why it did.
func (p *Plugin) forwardWakeUps(ctx context.Context, proc *process) error {
	wakeUps, err := proc.client.Watch(ctx, &deployerv1.WatchRequest{})
	if err != nil {
		return err
	}
	for {
		wakeUp, err := wakeUps.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("it ended the stream")
		}
		if err != nil {
			return err
		}
		p.settings.listener.WakeUp(p, wakeUp.GetNamespace(), wakeUp.GetName())
	}
}

// set changes the state and tells the listener.
func (p *Plugin) set(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	p.settings.changed()
}
