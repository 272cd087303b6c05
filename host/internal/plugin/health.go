package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/plugin/session"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

const (
	// checksPerSilence is the number of health checks within the allowed time of silence.
	checksPerSilence = 3
	// memoryInterval is the time between two checks of a limit of memory.
	memoryInterval = time.Second
)

// checkHealth kills a wedged process: it has answered no check during Options.Silence, or was silent for so long in a
// call, although calls promise heartbeats.
func (p *Plugin) checkHealth(ctx context.Context, r *run) {
	interval := p.settings.Silence / checksPerSilence
	health := healthRecord{silence: p.settings.Silence}
	p.settings.every(ctx, interval, func() {
		answer := r.session.Check(ctx, interval)
		if ctx.Err() != nil {
			return
		}
		if answer != nil {
			p.log.Debug("plugin does not answer the health check", "error", hostside.Bounded(answer.Error()))
		}
		p.noteHealth(answer)
		if why := health.judge(answer, r.session.Silent(checksPerSilence)); why != nil {
			r.kill(why, p.log)
		}
	})
}

// noteHealth shows the plugin's own report of its health.
func (p *Plugin) noteHealth(answer error) {
	switch before := p.status().Problem; {
	case answer == nil && before != nil:
		p.log.Info("plugin is healthy again")
		p.update(func() { p.problem = nil })
	case errors.Is(answer, session.ErrUnwell) && (before == nil || before.Error() != answer.Error()):
		p.log.Warn("plugin is unhealthy; it is killed if it stays so", "error", answer.Error())
		p.update(func() {
			if p.standby == nil { // otherwise the process ends
				p.problem = answer
			}
		})
	}
}

// healthRecord counts the failed checks in a row.
type healthRecord struct {
	silence   time.Duration // for messages
	failed    int
	unhealthy string // the plugin's last reason; empty for none
}

// judge takes the answer to a check, and the blame for a silent call, if any, and returns the reason to kill the
// process; nil for none.
func (h *healthRecord) judge(answer error, silent *session.Blame) *killing {
	before := h.unhealthy
	h.unhealthy = ""
	if errors.Is(answer, session.ErrUnwell) {
		h.unhealthy = answer.Error()
	}
	switch {
	case answer == nil, h.unhealthy != "" && h.unhealthy != before: // another reason: the earlier call has ended
		h.failed = 0
	default:
		h.failed++
	}
	switch {
	case answer == nil && silent != nil:
		return &killing{
			reason: ReasonWedged, blame: *silent,
			text: fmt.Sprintf("it has said nothing in a call for %s, not even a heartbeat", h.silence),
		}
	case h.failed < checksPerSilence:
		return nil
	case h.unhealthy != "":
		// The call to blame was cancelled, so it is none of the running ones.
		return &killing{
			reason: ReasonWedged, blame: session.BlameNone(),
			text: fmt.Sprintf("it has been unhealthy for %s: %s", h.silence,
				strings.TrimPrefix(h.unhealthy, session.ErrUnwell.Error()+": ")),
		}
	default:
		return &killing{
			reason: ReasonWedged, text: fmt.Sprintf("it has answered no health check for %s: %s", h.silence,
				hostside.Bounded(answer.Error())),
		}
	}
}

// checkMemory kills a process which exceeds its memory, together with its children.
func (p *Plugin) checkMemory(ctx context.Context, r *run, memory func() uint64) {
	limit := p.profile.Memory
	if limit == 0 {
		return
	}
	p.settings.every(ctx, memoryInterval, func() {
		if used := memory(); used > limit {
			text := fmt.Sprintf("it has taken %d MiB of memory, and may take %d MiB", used>>20, limit>>20)
			r.kill(&killing{reason: ReasonMemory, text: text}, p.log)
		}
	})
}
