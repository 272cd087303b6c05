package plugin

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

const (
	// watchPause is the time before the stream of wake-ups is opened again.
	watchPause = time.Second
	// wakeUpsPerSecond bounds the forwarded wake-ups of one plugin in the long run, wakeUpBurst those at once.
	wakeUpsPerSecond = 500
	wakeUpBurst      = 5000
)

// watch forwards the plugin's wake-ups, and answers its questions about items, until ctx ends.
func (p *Plugin) watch(ctx context.Context, r *run) {
	follow := r.session.WakeUps
	switch {
	case r.info.Capabilities.WatchItems:
		follow = r.session.WatchItems
	case !r.info.Capabilities.Watch:
		return
	}
	watch := &pluginWatch{plugin: p, pace: rate.NewLimiter(wakeUpsPerSecond, wakeUpBurst)}
	for {
		if err := follow(ctx, watch); ctx.Err() == nil {
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

// pluginWatch passes the watch of a plugin on to the listener.
type pluginWatch struct {
	plugin *Plugin
	pace   *rate.Limiter
}

// Wake implements session.Watch.
func (w *pluginWatch) Wake(ctx context.Context, namespace, name string) error {
	if len(namespace)+len(name) <= 2*hostside.MaxText {
		w.plugin.settings.listener.WakeUp(w.plugin, namespace, name)
	}
	return w.pace.Wait(ctx)
}

// Items implements session.Watch.
func (w *pluginWatch) Items(ctx context.Context) ([]sdk.WatchedItem, error) {
	return w.plugin.settings.listener.WatchedItems(ctx, w.plugin)
}

// CallFor implements session.Watch.
func (w *pluginWatch) CallFor(ctx context.Context, item types.NamespacedName) (Call, error) {
	return w.plugin.settings.listener.CallFor(ctx, w.plugin, item)
}
