package plugin

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
)

// Plugin is one deployer with its supervisor.
type Plugin struct {
	file     string // in the plugin directory, or the address of an attached plugin
	settings *settings
	profile  launch.Profile
	program  *launch.Program // nil for an attached plugin
	log      *slog.Logger

	// refuse ends the plugin for good, by a refusal. It is set before the plugin claims anything.
	refuse context.CancelCauseFunc

	mu sync.Mutex
	facts
}

// facts are known of a plugin at the moment.
type facts struct {
	lifecycle    lifecycle
	problem      error
	sum          string // SHA-256 of the program; empty before the first start, and for an attached plugin
	info         *Info  // of the last run
	build        string // see Build
	process      *process
	droppedLines uint64        // of the logs of ended processes
	startTook    time.Duration // of the last start
}

// Status is the visible state of a plugin.
type Status struct {
	// File in the plugin directory, or the address of an attached plugin.
	File string
	// State of the plugin.
	State State
	// Problem of the plugin; nil for none. Before another start it is the reason for the last end, and during a run the
	// plugin's own report of its health.
	Problem error
	// Info is the plugin's description of itself; nil before its first run.
	Info *Info
	// Restarts counts the starts after the first one, by the reason for the end before.
	Restarts map[Reason]int
	// StartTook is the duration of the last start until the plugin took calls; zero before its first run.
	StartTook time.Duration
	// Pid is the process id; zero without a process of the host's own.
	Pid int
	// Calls counts the calls under way.
	Calls int
	// DroppedLines counts the lines of its log above the rate.
	DroppedLines uint64
}

// Ready reports whether the plugin takes calls and is healthy, or has taken calls and will again in a moment.
func (s Status) Ready() bool {
	return s.State == Running && s.Problem == nil || s.Info != nil && (s.State == Backoff || s.State == Starting)
}

// Restarted is how often the process was started after the first time.
func (s Status) Restarted() int {
	total := 0
	for _, n := range s.Restarts {
		total += n
	}
	return total
}

// Name is the name that the plugin has given itself; empty if it has never run.
func (p *Plugin) Name() string {
	return p.Info().Name
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

// Build tells one program with one configuration from another, whatever version they say they are; empty for a plugin
// that has never run. It is the same in all replicas that have the same.
func (p *Plugin) Build() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.build
}

func (p *Plugin) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{
		File: p.file, State: p.lifecycle.state, Problem: p.problem, Info: p.info,
		Restarts: maps.Clone(p.lifecycle.restarts), StartTook: p.startTook, DroppedLines: p.droppedLines,
	}
	if p.process != nil {
		s.Pid, s.Calls = p.process.run.Pid(), p.process.calls.count()
		s.DroppedLines += p.process.run.Output.Dropped()
	}
	return s
}

// hasSettled reports whether the first attempt to start has come to an end.
func (p *Plugin) hasSettled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lifecycle.settled
}

// Call carries out one operation and blocks until the plugin has given its result. When ctx ends the plugin is asked to
// stop and, if it does not, cancelled a moment later; when the deadline of the call passes it is cancelled at once.
//
// The error is ErrNotRunning, ErrCrashed, ErrProtocol, the cause of ctx, context.DeadlineExceeded, or an Error that
// says why the plugin, which has not been called, cannot have its access to the host cluster; possibly wrapped. What
// goes wrong within the deployer is no error but an Outcome.
func (p *Plugin) Call(ctx context.Context, op Operation, c Call, observer Observer) (*Outcome, error) {
	proc, err := p.current()
	if err != nil {
		return nil, err
	}
	return proc.call(ctx, op, c, p.settings.StopGrace, observer)
}

// current returns the process that takes calls. The error is ErrNotRunning.
func (p *Plugin) current() (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return nil, ErrNotRunning
	}
	return p.process, nil
}

// Detail is what there is to know of a plugin beyond its Status.
type Detail struct {
	Status
	// SHA256 of the program, in hexadecimal digits; empty for a plugin that is no file or was never read.
	SHA256 string
	// Memory is how many bytes its process and the children of that have in memory; zero without a process.
	Memory uint64
	// Confinement says what keeps the process from what is not its own; empty without a process.
	Confinement string
}

func (p *Plugin) detail() Detail {
	d := Detail{Status: p.status()}
	p.mu.Lock()
	proc := p.process
	d.SHA256 = p.sum
	p.mu.Unlock()
	if proc != nil {
		d.Memory, d.Confinement = proc.run.Memory(), proc.run.Confinement
	}
	return d
}

// update changes the facts and calls the listener.
func (p *Plugin) update(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	p.settings.changed()
}
