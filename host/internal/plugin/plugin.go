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

// facts are the current knowledge about a plugin.
type facts struct {
	lifecycle    lifecycle
	problem      error
	sum          string        // SHA-256 of the program; empty before the first start, and for an attached plugin
	info         *Info         // of the last run
	build        string        // see Build
	run          *run          // nil unless Running, or ending for Standby
	standby      *standby      // nil unless Standby
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

// TakesCalls reports whether the plugin takes calls, if only after a start.
func (s Status) TakesCalls() bool { return s.State == Running || s.State == Standby }

// Ready reports whether the plugin is healthy and takes calls, or has taken calls and is about to start again.
func (s Status) Ready() bool {
	return s.TakesCalls() && s.Problem == nil || s.Info != nil && (s.State == Backoff || s.State == Starting)
}

// Restarted counts the starts after the first one.
func (s Status) Restarted() int {
	total := 0
	for _, n := range s.Restarts {
		total += n
	}
	return total
}

// Name returns the name of the plugin; empty before its first run.
func (p *Plugin) Name() string {
	return p.Info().Name
}

// Info returns the plugin's description of itself; the zero Info before its first run.
func (p *Plugin) Info() Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.info == nil {
		return Info{}
	}
	return *p.info
}

// Build identifies a program with its configuration, in all replicas alike; empty before the first run.
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
	if p.run != nil {
		s.Pid, s.Calls = p.run.process.Pid(), p.run.session.Calls()
		s.DroppedLines += p.run.process.Output.Dropped()
	}
	return s
}

// hasSettled reports whether the first attempt to start is over.
func (p *Plugin) hasSettled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lifecycle.settled
}

// Detail extends the Status of a plugin.
type Detail struct {
	Status
	// SHA256 of the program, in hexadecimal digits; empty before the first start, and for an attached plugin.
	SHA256 string
	// Memory is the resident bytes of its process with all descendants; zero without a process.
	Memory uint64
	// Confinement describes the confinement of the process; empty without a process.
	Confinement string
}

func (p *Plugin) detail() Detail {
	d := Detail{Status: p.status()}
	p.mu.Lock()
	run := p.run
	d.SHA256 = p.sum
	p.mu.Unlock()
	if run != nil {
		d.Memory, d.Confinement = run.process.Memory(), run.process.Confinement
	}
	return d
}

// update changes the facts and calls the listener.
func (p *Plugin) update(change func()) {
	p.mu.Lock()
	change()
	p.endStandby()
	p.mu.Unlock()
	p.settings.changed()
}
