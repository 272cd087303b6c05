package plugin

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/pergola-deploy/pergola/sdk/hostside"
)

const (
	// watchPause is the time before the stream of wake-ups is opened again.
	watchPause = time.Second
	// wakeUpsPerSecond bounds the forwarded wake-ups of one plugin in the long run, wakeUpBurst those at once.
	wakeUpsPerSecond = 500
	wakeUpBurst      = 5000
)

// watch forwards the plugin's wake-ups until ctx ends.
func (p *Plugin) watch(ctx context.Context, r *run) {
	if !r.info.Capabilities.Watch {
		return
	}
	pace := rate.NewLimiter(wakeUpsPerSecond, wakeUpBurst)
	wake := func(namespace, name string) error {
		if len(namespace)+len(name) <= 2*hostside.MaxText {
			p.settings.listener.WakeUp(p, namespace, name)
		}
		return pace.Wait(ctx)
	}
	for {
		if err := r.session.WakeUps(ctx, wake); ctx.Err() == nil {
			p.log.Warn("plugin stopped sending wake-ups; its items are polled until it is asked again", "error",
				hostside.Bounded(err.Error()))
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
