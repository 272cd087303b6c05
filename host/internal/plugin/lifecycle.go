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
	// Refused: it is not used at all until it is reloaded; Status.Problem says why.
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
	// ReasonReload: the host has replaced it, or was asked to start it again.
	ReasonReload Reason = "reload"
)

// Reasons are all reasons.
func Reasons() []Reason {
	return []Reason{ReasonStart, ReasonExit, ReasonWedged, ReasonMemory, ReasonReload}
}

const (
	firstPause = 250 * time.Millisecond
	maxPause   = 30 * time.Second
	// stableAfter is how long a process must take calls for the failures before it to be forgotten.
	stableAfter = time.Minute
	// crashLoopAfter is how many failures in a row make a crash loop.
	crashLoopAfter = 5
)

// lifecycle is the state machine of a plugin. It does nothing but to keep account: whoever starts and ends processes tells it, and
// learns how long to wait. Its zero value is that of a plugin that was never started.
//
// Every start is a generation of its own. News of an earlier one come too late and change nothing.
type lifecycle struct {
	state      State
	generation int
	runs       time.Time // since when; valid while Running
	failures   int       // in a row
	ended      Reason    // why the last generation ended; empty before the first end
	restarts   map[Reason]int
}

// start begins a generation.
func (l *lifecycle) start() (generation int) {
	if l.ended != "" {
		if l.restarts == nil {
			l.restarts = map[Reason]int{}
		}
		l.restarts[l.ended]++
	}
	l.generation++
	l.state = Starting
	return l.generation
}

// run notes that a generation takes calls.
func (l *lifecycle) run(generation int, now time.Time) {
	if generation != l.generation || l.state != Starting {
		return
	}
	l.state, l.runs = Running, now
}

// end notes that a generation has come to its end, and returns how long to wait before the next one: longer from time to time, unless
// it took calls for long. random, from [0, 1), is the jitter. It reports false for a generation that has ended before.
func (l *lifecycle) end(generation int, reason Reason, now time.Time, random float64) (pause time.Duration, current bool) {
	if generation != l.generation || l.state != Starting && l.state != Running {
		return 0, false
	}
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
	return pause, true
}

// replace begins a generation in the place of one that runs.
func (l *lifecycle) replace() (generation int) {
	l.ended = ReasonReload
	return l.start()
}

// lose notes that the process of this generation has ended while another one is being started in its place.
func (l *lifecycle) lose() { l.state = Starting }

// forgive forgets the failures so far: somebody has changed something.
func (l *lifecycle) forgive() {
	l.failures = 0
	if l.ended != "" {
		l.ended = ReasonReload
	}
}

// refuse ends a life for a reason that no other try would change.
func (l *lifecycle) refuse(reason Reason) {
	l.state, l.ended = Refused, reason
}

// stop ends a life for good.
func (l *lifecycle) stop() { l.state = Stopped }

// restarted tells how often the plugin was started after the first time, by the reason why the process before has ended.
func (l *lifecycle) restarted() map[Reason]int { return maps.Clone(l.restarts) }

// backoff is the pause before the next start after so many failures in a row: it doubles from a quarter of a second to half a
// minute. random, from [0, 1), takes up to a fifth off, so that plugins that fail together do not start together.
func backoff(failures int, random float64) time.Duration {
	pause := maxPause
	if failures < 16 { // shifting further would overflow
		pause = min(firstPause<<failures, maxPause)
	}
	return pause - time.Duration(random*float64(pause)/5)
}
