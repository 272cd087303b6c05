package plugin

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
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
	// CrashLoop: like Backoff, for a plugin that has failed several times in a row.
	CrashLoop State = "CrashLoop"
	// Refused: it is not used at all until the host is restarted; Status.Problem says why.
	Refused State = "Refused"
	// Missing: its file is not in the plugin directory, although Options.Files has it; or it cannot be taken from its
	// image, which is tried again.
	Missing State = "Missing"
	// Stopped: the host is shutting down.
	Stopped State = "Stopped"
)

// Reason is why a process of a plugin came to its end.
type Reason string

// The reasons.
const (
	// ReasonStart: it did not come to run.
	ReasonStart Reason = "start"
	// ReasonExit: it ended by itself, or somebody other than the host has killed it.
	ReasonExit Reason = "exit"
	// ReasonWedged: the host has killed it because it did not answer, or said nothing in a call.
	ReasonWedged Reason = "wedged"
	// ReasonMemory: the host has killed it because it took more memory than it may.
	ReasonMemory Reason = "memory"
)

// Reasons are all reasons.
func Reasons() []Reason {
	return []Reason{ReasonStart, ReasonExit, ReasonWedged, ReasonMemory}
}

// Plugin is one deployer with its supervisor.
type Plugin struct {
	file     string // in the plugin directory, or the address of a plugin that somebody else has started
	settings *settings
	profile  Profile
	program  *program // nil for a plugin that somebody else has started
	log      *slog.Logger

	// refuse ends the plugin for good, for a reason that is a refusal. It is there before the plugin claims anything.
	refuse context.CancelCauseFunc

	mu           sync.Mutex
	lifecycle    lifecycle
	settled      bool // the first attempt to start has come to an end, good or bad
	problem      error
	sum          string // SHA-256 of what is started; empty if nothing was so far, or if it is no file
	info         *Info  // what it said when it ran last
	build        string // see Build
	process      *process
	droppedLines uint64        // of the logs of processes that have ended
	startTook    time.Duration // from the start of the process until it took calls, last time
}

// Status is what there is to see of a plugin.
type Status struct {
	// File in the plugin directory, or the address of a plugin that is attached.
	File string
	// State of the plugin.
	State State
	// Problem says what is wrong; nil if nothing is. While a plugin is started again it is why it had ended, and while it
	// runs what it says of its health.
	Problem error
	// Info is what the plugin says about itself; nil if it has never run.
	Info *Info
	// Restarts counts how often its process was started after the first time, by the reason why the one before had ended.
	Restarts map[Reason]int
	// StartTook is how long the last start took until the plugin took calls; zero if it has never run.
	StartTook time.Duration
	// Pid is the process id; zero if there is no process of the host's own.
	Pid int
	// Calls is how many calls are under way.
	Calls int
	// DroppedLines counts the lines of its log that were dropped because there were too many.
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
		s.Pid, s.Calls = p.process.pid(), p.process.calls.count()
		s.DroppedLines += p.process.output.dropped.Load()
	}
	return s
}

// hasSettled reports whether the first attempt to start has come to an end.
func (p *Plugin) hasSettled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settled
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
		d.Memory, d.Confinement = proc.memory(), proc.confinement
	}
	return d
}
