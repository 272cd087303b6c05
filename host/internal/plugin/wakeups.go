package plugin

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

const (
	// watchPause is the time before the stream of wake-ups is opened again.
	watchPause = time.Second
	// wakeUpsPerSecond bounds the forwarded wake-ups of one plugin in the long run, wakeUpBurst those at once.
	wakeUpsPerSecond = 500
	wakeUpBurst      = 5000
)

// watch forwards the plugin's wake-ups until ctx ends.
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

// forwardWakeUps forwards wake-ups until the stream ends, and returns the reason.
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
