package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

const (
	// checksPerSilence is how often the health of a plugin is checked within the time that it may be silent.
	checksPerSilence = 3
	// memoryInterval is how often the memory of a plugin is looked at that has a limit.
	memoryInterval = time.Second
	// watchPause is how long the host waits before it opens the wake-up stream again.
	watchPause = time.Second
	// wakeUpsPerSecond is how many wake-ups of one plugin are passed on in the long run, and wakeUpBurst how many at once.
	wakeUpsPerSecond = 500
	wakeUpBurst      = 5000
)

// attend looks after a process that takes calls: its health, its memory and its wake-ups. It ends with ctx.
func (p *Plugin) attend(ctx context.Context, proc *process) {
	var all sync.WaitGroup
	all.Go(func() { p.watch(ctx, proc) })
	if proc.cmd != nil { // else it is somebody else's matter
		all.Go(func() { p.checkHealth(ctx, proc) })
		all.Go(func() { p.checkMemory(ctx, proc, proc.memory) })
	}
	all.Wait()
}

// checkHealth kills a process that is wedged: one that has answered no check for the time that a plugin may be silent,
// or that has said nothing in a call for so long, although its calls promise heartbeats.
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

// errUnhealthy is what a plugin says that is there, but cannot go on.
var errUnhealthy = errors.New("it is unhealthy")

// noteHealth shows what a plugin says itself of its health.
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

// healthRecord counts the checks in a row that a process has failed.
type healthRecord struct {
	silence   time.Duration // for messages
	failed    int
	unhealthy string // the reason for being unhealthy that the process has named last; empty for none
}

// judge takes the answer to a check, and a call in which the plugin is silent for too long, and returns why the process
// is to be killed; nil if it is not.
func (h *healthRecord) judge(answer error, silent *conversation) *endError {
	before := h.unhealthy
	h.unhealthy = ""
	if errors.Is(answer, errUnhealthy) {
		h.unhealthy = answer.Error()
	}
	switch {
	case answer == nil, h.unhealthy != "" && h.unhealthy != before: // healthy, or the call of the reason before has ended
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
		// The call that is the cause was cancelled, and is none of those that are running.
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

// check asks for the health of a plugin. An answer is one, whatever it says, unless it says that the plugin does not
// serve, or why it is unhealthy.
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

// checkMemory kills a process that takes more memory than it may, together with its children.
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

// watch passes the plugin's wake-ups on until ctx ends or the process does.
func (p *Plugin) watch(ctx context.Context, proc *process) {
	if !proc.info.Capabilities.Watch {
		return
	}
	pace := rate.NewLimiter(wakeUpsPerSecond, wakeUpBurst)
	for {
		if err := p.forwardWakeUps(ctx, proc, pace); ctx.Err() == nil {
			p.log.Warn("plugin stopped sending wake-ups; its items are polled until it is asked again", "error",
				bounded(err.Error()))
		}
		timer := p.settings.Clock.NewTimer(watchPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// forwardWakeUps passes wake-ups on until the stream ends; the error says why it did.
func (p *Plugin) forwardWakeUps(ctx context.Context, proc *process, pace *rate.Limiter) error {
	wakeUps, err := proc.client.Watch(ctx, &deployerv1.WatchRequest{}, grpc.MaxCallRecvMsgSize(maxAnswerBytes))
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
		if len(wakeUp.GetNamespace())+len(wakeUp.GetName()) <= 2*maxText {
			p.settings.listener.WakeUp(p, wakeUp.GetNamespace(), wakeUp.GetName())
		}
		if err := pace.Wait(ctx); err != nil {
			return err
		}
	}
}
