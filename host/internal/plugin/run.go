package plugin

import (
	"errors"
	"log/slog"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	"github.com/pergola-deploy/pergola/host/internal/plugin/session"
)

// lastWordsTime bounds the age of last words at the end of a process.
const lastWordsTime = 10 * time.Second

// run is one run of a plugin.
type run struct {
	process *launch.Process
	session *session.Session
	info    *Info
}

// logLastWords logs the last words of a process after its end, in one record.
func (r *run) logLastWords(log *slog.Logger) {
	if words := r.process.Output.LastWords(lastWordsTime); len(words) > 0 {
		log.Error("last words of the plugin", "pid", r.process.Pid(), "lines", words)
	}
}

// kill kills the process, unless it was killed before.
func (r *run) kill(why *killing, log *slog.Logger) {
	if r.session.KillFor(why, why.blame) {
		log.Error("plugin is killed", "reason", string(why.reason), "error", why.text, "pid", r.process.Pid())
	}
}

// killing is the reason of the host to kill a process.
type killing struct {
	reason Reason
	text   string
	blame  session.Blame
}

func (k *killing) Error() string { return k.text }

// reasonOf returns the reason in an error of a run.
func reasonOf(err error) Reason {
	killed := (*killing)(nil)
	switch {
	case errors.As(err, &killed):
		return killed.reason
	case errors.Is(err, session.ErrEnded):
		return ReasonExit
	default:
		return ReasonStart
	}
}
