package plugin

import "time"

// State is where a plugin is in its life.
type State string

// The states of a plugin.
const (
	// Starting: its process is started and introduces itself.
	Starting State = "Starting"
	// Running: it takes calls.
	Running State = "Running"
	// Standby: it takes calls, but has no process, because no deploy item needs it. The next call starts one, and waits.
	Standby State = "Standby"
	// Backoff: its start failed or its process ended; the next start follows after a pause.
	Backoff State = "Backoff"
	// CrashLoop: like Backoff, after several failures in a row.
	CrashLoop State = "CrashLoop"
	// Refused: it stays out of use until the host is restarted; Status.Problem has the reason.
	Refused State = "Refused"
	// Missing: the plugin directory lacks a file of Options.Files; or the image cannot be pulled, and the next try
	// follows.
	Missing State = "Missing"
	// Stopped: the host is shutting down.
	Stopped State = "Stopped"
)

// Reason is the reason for the end of a plugin's process.
type Reason string

// The reasons.
const (
	// ReasonStart: the start failed.
	ReasonStart Reason = "start"
	// ReasonExit: it ended by itself, or by a signal from elsewhere.
	ReasonExit Reason = "exit"
	// ReasonWedged: the host has killed it because it did not answer, or was silent in a call.
	ReasonWedged Reason = "wedged"
	// ReasonMemory: the host has killed it because it exceeded its memory.
	ReasonMemory Reason = "memory"
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{ReasonStart, ReasonExit, ReasonWedged, ReasonMemory}
}

const (
	firstPause = 250 * time.Millisecond
	maxPause   = 30 * time.Second
	// stableAfter is the run time after which earlier failures are forgotten.
	stableAfter = time.Minute
	// crashLoopAfter is the number of failures in a row in a crash loop.
	crashLoopAfter = 5
)

// lifecycle is the state machine of a plugin. It has no effects.
type lifecycle struct {
	state    State
	settled  bool      // the first attempt to start is over, good or bad
	runs     time.Time // since when; valid while Running
	failures int       // in a row
	ended    Reason    // of the last process; empty before the first end
	restarts map[Reason]int
}

// start notes the start of a process.
func (l *lifecycle) start() {
	if l.ended != "" {
		if l.restarts == nil {
			l.restarts = map[Reason]int{}
		}
		l.restarts[l.ended]++
	}
	if l.state != Standby { // in which calls wait for the start
		l.state = Starting
	}
}

// run notes that the process takes calls.
func (l *lifecycle) run(now time.Time) { l.state, l.settled, l.runs = Running, true, now }

// end notes the end of the process, and returns the pause before the next start: growing, unless the process ran for
// long. random, from [0, 1), is the jitter.
func (l *lifecycle) end(reason Reason, now time.Time, random float64) (pause time.Duration) {
	if l.state == Running && now.Sub(l.runs) >= stableAfter {
		l.failures = 0
	}
	l.ended = reason
	pause = backoff(l.failures, random)
	l.failures++
	l.state, l.settled = Backoff, true
	if l.failures >= crashLoopAfter {
		l.state = CrashLoop
	}
	return pause
}

// standBy notes that the host has ended the process for lack of need. The next start is no restart.
func (l *lifecycle) standBy() { l.state, l.ended, l.failures = Standby, "", 0 }

// refuse notes that the plugin is not started again.
func (l *lifecycle) refuse() { l.state, l.settled = Refused, true }

// miss notes that there is no program to start.
func (l *lifecycle) miss() { l.state, l.settled = Missing, true }

// look notes, after end, that a process to attach to is looked for. The host does not start it, so nothing is a restart
// or a crash loop.
func (l *lifecycle) look() {
	l.state, l.ended, l.failures = Backoff, "", min(l.failures, crashLoopAfter-1)
}

// backoff is the pause after so many failures in a row: it doubles from a quarter of a second to half a minute. random,
// from [0, 1), takes up to a fifth off, so that plugins with a common failure do not start together.
func backoff(failures int, random float64) time.Duration {
	pause := maxPause
	if failures < 16 { // shifting further would overflow
		pause = min(firstPause<<failures, maxPause)
	}
	return pause - time.Duration(random*float64(pause)/5)
}
