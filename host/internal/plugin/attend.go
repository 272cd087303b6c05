package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	if !proc.foreign() {
		all.Go(func() { p.checkHealth(ctx, proc) })
		all.Go(func() { p.checkMemory(ctx, proc) })
	}
	all.Wait()
}

// checkHealth kills a process that is wedged: one that has answered no check for the time that a plugin may be silent, or that has
// said nothing in a call for so long, although its calls promise heartbeats.
func (p *Plugin) checkHealth(ctx context.Context, proc *process) {
	clock := p.settings.clock
	pulse := newPulse(p.settings.silence, clock.Now())
	ticker := clock.NewTicker(pulse.interval())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		err := proc.check(ctx, pulse.interval())
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.log.Debug("plugin does not answer the health check", "error", bounded(err.Error()))
		}
		p.noteHealth(err)
		verdict, asleep := pulse.judge(clock.Now(), err, proc.calls.silent(p.settings.silence))
		if asleep {
			p.log.Info("the host was asleep; that time does not count against the plugin")
		}
		if verdict != nil {
			proc.killFor(verdict)
		}
	}
}

// unhealthyError is what a plugin says that is there, but cannot go on.
type unhealthyError struct{ why string }

func (e *unhealthyError) Error() string { return "it is unhealthy: " + e.why }

// noteHealth shows what a plugin says itself of its health.
func (p *Plugin) noteHealth(answer error) {
	var unhealthy *unhealthyError
	errors.As(answer, &unhealthy)
	switch before := p.status().Problem; {
	case answer == nil && before != nil:
		p.log.Info("plugin is healthy again")
		p.set(func() { p.problem = nil })
	case unhealthy != nil && (before == nil || before.Error() != unhealthy.Error()):
		p.log.Warn("plugin is unhealthy; it is killed if it stays so", "error", unhealthy.Error())
		p.set(func() { p.problem = unhealthy })
	}
}

// pulse is what is known of the health of a process.
type pulse struct {
	silence   time.Duration // for which it may give no sign of life
	healthy   time.Time     // when it gave one last, or named another reason for being unhealthy
	unhealthy string        // the reason that it has named last; empty for none
	looked    time.Time     // when the host looked last
}

func newPulse(silence time.Duration, now time.Time) *pulse {
	return &pulse{silence: silence, healthy: now, looked: now}
}

// interval is the time between two checks, and what one may take.
func (p *pulse) interval() time.Duration { return p.silence / checksPerSilence }

// judge takes the answer to a check, and a call in which the plugin is silent for too long, and returns why the process is to be
// killed; nil if it is not. A host that was stopped itself, or got no processor, has heard nothing for a reason that is not the plugin's:
// asleep says so, and everything counts from now.
func (p *pulse) judge(now time.Time, answer error, silent *conversation) (verdict *killReason, asleep bool) {
	asleep = now.Sub(p.looked) > (checksPerSilence-1)*p.interval()+p.interval()/2
	p.looked = now
	before := p.unhealthy
	p.unhealthy = ""
	var unhealthy *unhealthyError
	if errors.As(answer, &unhealthy) {
		p.unhealthy = unhealthy.why
	}
	switch {
	case asleep, p.unhealthy != before && p.unhealthy != "": // the call before has ended
		p.healthy = now
	case answer != nil && now.Sub(p.healthy) < p.silence-p.interval()/2: // it has some time left
	case unhealthy != nil:
		// The call that is the cause was cancelled, and is none of those that are running.
		verdict = &killReason{
			reason: ReasonWedged, call: &conversation{},
			why: fmt.Sprintf("it has been unhealthy for %s: %s", p.silence, unhealthy.why),
		}
	case answer != nil:
		verdict = &killReason{reason: ReasonWedged, why: fmt.Sprintf("it has answered no health check for %s: %s", p.silence, bounded(answer.Error()))}
	case silent != nil:
		verdict = &killReason{reason: ReasonWedged, call: silent, why: fmt.Sprintf("it has said nothing in a call for %s, not even a heartbeat", p.silence)}
	default:
		p.healthy = now
	}
	return verdict, asleep
}

// check asks for the health of a plugin. An answer is one, whatever it says, unless it says that the plugin does not serve, or why it
// is unhealthy.
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
		return &unhealthyError{why: bounded(status.Convert(err).Message())}
	default:
		return nil
	}
}

// checkMemory kills a process that takes more memory than it may, together with its children.
func (p *Plugin) checkMemory(ctx context.Context, proc *process) {
	limit := p.profile.Memory
	if limit == 0 {
		return
	}
	ticker := p.settings.clock.NewTicker(memoryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		if used := proc.memory(); used > limit {
			why := fmt.Sprintf("it has taken %d MiB of memory, and may take %d MiB", used>>20, limit>>20)
			proc.killFor(&killReason{reason: ReasonMemory, why: why})
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
			p.log.Warn("plugin stopped sending wake-ups; its items are polled until it is asked again", "error", bounded(err.Error()))
		}
		timer := p.settings.clock.NewTimer(watchPause)
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
