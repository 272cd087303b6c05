package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const (
	// checksPerSilence is the number of health checks within the allowed time of silence.
	checksPerSilence = 3
	// memoryInterval is the time between two checks of a limit of memory.
	memoryInterval = time.Second
)

// checkHealth kills a wedged process: it has answered no check during Options.Silence, or was silent for so long in a
// call, although calls promise heartbeats.
func (p *Plugin) checkHealth(ctx context.Context, proc *process) {
	interval := p.settings.Silence / checksPerSilence
	health := healthRecord{silence: p.settings.Silence}
	ticker := p.settings.Clock.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		answer := proc.check(ctx, interval)
		if ctx.Err() != nil {
			return
		}
		if answer != nil {
			p.log.Debug("plugin does not answer the health check", "error", bounded(answer.Error()))
		}
		p.noteHealth(answer)
		if why := health.judge(answer, proc.calls.silent(checksPerSilence)); why != nil {
			proc.killFor(why)
		}
	}
}

// errUnhealthy is the answer of a plugin which runs but cannot go on.
var errUnhealthy = errors.New("it is unhealthy")

// noteHealth shows the plugin's own report of its health.
func (p *Plugin) noteHealth(answer error) {
	switch before := p.status().Problem; {
	case answer == nil && before != nil:
		p.log.Info("plugin is healthy again")
		p.update(func() { p.problem = nil })
	case errors.Is(answer, errUnhealthy) && (before == nil || before.Error() != answer.Error()):
		p.log.Warn("plugin is unhealthy; it is killed if it stays so", "error", answer.Error())
		p.update(func() { p.problem = answer })
	}
}

// healthRecord counts the failed checks in a row.
type healthRecord struct {
	silence   time.Duration // for messages
	failed    int
	unhealthy string // the plugin's last reason; empty for none
}

// judge takes the answer to a check and a call of too long a silence, if any, and returns the reason to kill the
// process; nil for none.
func (h *healthRecord) judge(answer error, silent *conversation) *endError {
	before := h.unhealthy
	h.unhealthy = ""
	if errors.Is(answer, errUnhealthy) {
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
		return &endError{
			reason: ReasonWedged, call: silent,
			text: fmt.Sprintf("it has said nothing in a call for %s, not even a heartbeat", h.silence),
		}
	case h.failed < checksPerSilence:
		return nil
	case h.unhealthy != "":
		// The call to blame was cancelled, so it is none of the running ones.
		return &endError{
			reason: ReasonWedged, call: &conversation{},
			text: fmt.Sprintf("it has been unhealthy for %s: %s", h.silence,
				strings.TrimPrefix(h.unhealthy, errUnhealthy.Error()+": ")),
		}
	default:
		return &endError{
			reason: ReasonWedged, text: fmt.Sprintf("it has answered no health check for %s: %s", h.silence,
				bounded(answer.Error())),
		}
	}
}

// check asks for the health of a plugin. Any answer is healthy but for "not serving" and for a reason to be unhealthy.
func (p *process) check(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	answer, err := p.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: goplugin.GRPCServiceName})
	switch status.Code(err) {
	case codes.OK:
		if answer.GetStatus() == grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			return errors.New("it says that it does not serve")
		}
		return nil
	case codes.DeadlineExceeded, codes.Unavailable, codes.Canceled:
		return err
	case codes.FailedPrecondition:
		return fmt.Errorf("%w: %s", errUnhealthy, bounded(status.Convert(err).Message()))
	default:
		return nil
	}
}

// checkMemory kills a process which exceeds its memory, together with its children.
func (p *Plugin) checkMemory(ctx context.Context, proc *process, memory func() uint64) {
	limit := p.profile.Memory
	if limit == 0 {
		return
	}
	ticker := p.settings.Clock.NewTicker(memoryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		if used := memory(); used > limit {
			proc.killFor(&endError{
				reason: ReasonMemory, text: fmt.Sprintf("it has taken %d MiB of memory, and may take %d MiB", used>>20, limit>>20),
			})
		}
	}
}
