package plugin

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/plugin/session"
)

// needInterval is the time between two questions whether a plugin is needed.
const needInterval = time.Minute

// errUnneeded is the end of a run for Standby.
var errUnneeded = errors.New("no deploy item needs it")

// standby is the time without a process, and that of the next start.
type standby struct {
	// call ends the time without a process; it can be called again.
	call   func()
	called chan struct{}
	// over is closed when the start has succeeded or failed.
	over chan struct{}
}

func newStandby() *standby {
	called := make(chan struct{})
	return &standby{call: sync.OnceFunc(func() { close(called) }), called: called, over: make(chan struct{})}
}

// checkNeed ends the run of a plugin with unneeded if no deploy item needs it and no call is under way. It returns then
// or at the end of ctx.
func (p *Plugin) checkNeed(ctx context.Context, r *run, unneeded func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.settings.every(ctx, needInterval, func() {
		if !p.settings.listener.Needs(p) && p.standBy(r) {
			unneeded()
			cancel()
		}
	})
}

// standBy takes a process without calls out of use, and reports whether it had none.
func (p *Plugin) standBy(r *run) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.session.Calls() > 0 {
		return false
	}
	p.problem, p.standby = nil, newStandby()
	p.lifecycle.standBy()
	return true
}

// awaitNeed waits until a call or a deploy item needs the process, or ctx ends.
func (p *Plugin) awaitNeed(ctx context.Context) {
	p.log.Info("plugin stands by: no deploy item needs it, and the next call starts it")
	p.settings.changed()
	ticker := p.settings.Clock.NewTicker(needInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.standby.called: // until the next start nothing replaces p.standby
			p.log.Info("plugin starts for a call")
			return
		case <-ticker.C():
			// Another replica may have carried out the jobs of the items, and be gone.
			if p.settings.listener.Needs(p) {
				p.log.Info("plugin starts for a deploy item")
				return
			}
		}
	}
}

// endStandby lets the calls go on that wait for the end of a start. p.mu is held.
func (p *Plugin) endStandby() {
	if p.standby != nil && p.lifecycle.state != Standby {
		close(p.standby.over)
		p.standby = nil
	}
}

// current returns the session of the running process. In Standby it starts one, and blocks until it runs, or until the
// end of ctx or the deadline of the call; zero for none. The error is ErrNotRunning.
func (p *Plugin) current(ctx context.Context, deadline time.Time) (*session.Session, error) {
	p.mu.Lock()
	waiting := p.standby
	p.mu.Unlock()
	if waiting != nil {
		waiting.call()
		if !deadline.IsZero() {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline)
			defer cancel()
		}
		select {
		case <-waiting.over:
		case <-ctx.Done():
		}
	}
	return p.running()
}

// running returns the session of the running process. The error is ErrNotRunning.
func (p *Plugin) running() (*session.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.standby != nil {
		return nil, ErrNotRunning
	}
	return p.run.session, nil
}
