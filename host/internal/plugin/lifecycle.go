package plugin

import (
	"maps"
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
	// Missing: its file is not in the plugin directory, although Options.Files has it.
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

const (
	firstPause = 250 * time.Millisecond
	maxPause   = 30 * time.Second
	// stableAfter is how long a process must take calls for the failures before it to be forgotten.
	stableAfter = time.Minute
	// crashLoopAfter is how many failures in a row make a crash loop.
	crashLoopAfter = 5
)

// lifecycle is the state machine of a plugin. It does nothing but to keep account: the supervisor tells it what
// happens, and learns how long to wait. Its zero value is that of a plugin that was never started.
type lifecycle struct {
	state    State
	runs     time.Time // since when; valid while Running
	failures int       // in a row
	ended    Reason    // why the last process ended; empty before the first end
	restarts map[Reason]int
}

// start notes that a process is being started.
func (l *lifecycle) start() {
	if l.ended != "" {
		if l.restarts == nil {
			l.restarts = map[Reason]int{}
		}
		l.restarts[l.ended]++
	}
	l.state = Starting
}

// run notes that the process takes calls.
func (l *lifecycle) run(now time.Time) { l.state, l.runs = Running, now }

// end notes that the process has ended, and returns how long to wait before the next one: longer from time to time,
// unless it took calls for long. random, from [0, 1), is the jitter.
func (l *lifecycle) end(reason Reason, now time.Time, random float64) (pause time.Duration) {
	if l.state == Running && now.Sub(l.runs) >= stableAfter {
		l.failures = 0
	}
	l.ended = reason
	pause = backoff(l.failures, random)
	l.failures++
	l.state = Backoff
	if l.failures >= crashLoopAfter {
		l.state = CrashLoop
	}
	return pause
}

// refuse notes that the plugin is not started again: no other try would change why it does not run.
func (l *lifecycle) refuse() { l.state = Refused }

// stop notes that the host is shutting down.
func (l *lifecycle) stop() { l.state = Stopped }

// restarted tells how often the plugin was started after the first time, by the reason why the process before has
// ended.
func (l *lifecycle) restarted() map[Reason]int { return maps.Clone(l.restarts) }

// backoff is the pause before the next start after so many failures in a row: it doubles from a quarter of a second to
// half a minute. random, from [0, 1), takes up to a fifth off, so that plugins that fail together do not start
// together.
func backoff(failures int, random float64) time.Duration {
	pause := maxPause
	if failures < 16 { // shifting further would overflow
		pause = min(firstPause<<failures, maxPause)
	}
	return pause - time.Duration(random*float64(pause)/5)
}
