package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// errRefused marks errors that no other try would change.
var errRefused = errors.New("refused")

func refusal(err error) error { return fmt.Errorf("%w: %w", errRefused, err) }

// supervise keeps the plugin running until ctx ends, and then ends it. It is the only one that starts its process, so that however
// many calls fail at once there is one restart.
func (p *Plugin) supervise(ctx context.Context) {
	defer close(p.ended)
	defer p.source.close()
	var retiring sync.WaitGroup
	defer retiring.Wait()
	for asked := (chan error)(nil); ctx.Err() == nil; {
		next, err := p.start(ctx, asked)
		if err == nil {
			err = p.serve(ctx, next, &retiring)
		} else {
			next.answer(err)
		}
		if ctx.Err() != nil {
			break
		}
		asked = p.rest(ctx, next, err)
	}
	p.set(func() { p.lifecycle.stop() })
}

// life is one generation of a plugin: its process, once it has said who it is.
type life struct {
	generation int
	asked      chan error // takes how the start went, for a reload; nil if nobody has asked
	process    *process
	info       *Info
	took       time.Duration
}

// answer tells whoever asked for this life how its start went.
func (l *life) answer(err error) {
	if l.asked != nil {
		l.asked <- err
	}
}

// start begins a generation and brings it to where it can take calls.
func (p *Plugin) start(ctx context.Context, asked chan error) (*life, error) {
	next := &life{asked: asked}
	p.set(func() { next.generation = p.lifecycle.start() })
	err := p.bringUp(ctx, next)
	p.source.settle(true)
	return next, err
}

func (p *Plugin) bringUp(ctx context.Context, next *life) error {
	began := p.settings.clock.Now()
	proc, err := p.source.start(ctx, next.asked != nil)
	if err != nil {
		return err
	}
	if next.info, err = p.introduce(ctx, proc); err != nil {
		proc.stop()
		proc.logLastWords(p.log)
		return err
	}
	proc.capabilities, proc.hostCluster = next.info.Capabilities, p.hostClusterFor(next.info)
	next.process, next.took = proc, p.settings.clock.Since(began)
	return nil
}

// serve lets a process take calls until it ends or must end, and returns why. A reload puts another process in its place.
func (p *Plugin) serve(ctx context.Context, current *life, retiring *sync.WaitGroup) error {
	for {
		p.install(current)
		attended, stopAttending := context.WithCancel(ctx)
		var attendance sync.WaitGroup
		attendance.Go(func() { p.attend(attended, current) })
		replacement, err := p.await(ctx, current)
		stopAttending()
		attendance.Wait()
		if replacement == nil {
			p.set(func() {
				p.process = nil
				p.retired[current.process] = true
			})
			if ctx.Err() != nil || errors.Is(err, errRefused) {
				current.process.excuse()
			}
			current.process.stop()
			p.set(func() {
				p.droppedLines += current.process.droppedLines()
				delete(p.retired, current.process)
			})
			if ctx.Err() == nil && !errors.Is(err, errRefused) {
				current.process.logLastWords(p.log)
			}
			return err
		}
		retired := current.process
		p.set(func() { p.retired[retired] = true })
		retiring.Go(func() {
			retired.retire(ctx, p.settings.clock, p.settings.drain)
			p.set(func() {
				p.droppedLines += retired.droppedLines()
				delete(p.retired, retired)
			})
			if !retired.excused() {
				retired.logLastWords(p.log)
			}
		})
		current = replacement
	}
}

// install makes a process the one that takes calls.
func (p *Plugin) install(l *life) {
	p.log.Info("plugin is running", "name", l.info.Name, "version", l.info.Version, "sdk", l.info.SDKVersion,
		"types", l.info.Types, "hooks", l.info.HookedTypes, "pid", l.process.pid(), "confinement", l.process.confinement, "took", l.took.String())
	p.set(func() {
		p.lifecycle.run(l.generation, p.settings.clock.Now())
		p.problem, p.info, p.process, p.startTook = nil, l.info, l.process, l.took
		p.settle()
	})
	l.answer(nil)
}

// await waits until the process ends or must end, and returns why, or what takes its place.
func (p *Plugin) await(ctx context.Context, current *life) (replacement *life, err error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-current.process.ended():
			return nil, current.process.endError()
		case err := <-p.refusals:
			return nil, refusal(err)
		case asked := <-p.reloads:
			if next := p.replace(ctx, current, asked); next != nil {
				return next, nil
			}
		}
	}
}

// replace starts the process that is to take the place of the one that runs. That one goes on if it fails, and nil is returned.
func (p *Plugin) replace(ctx context.Context, current *life, asked chan error) *life {
	next := &life{asked: asked}
	started := make(chan error, 1)
	go func() { started <- p.bringUp(ctx, next) }()
	var err error
	select {
	case err = <-started:
	case <-current.process.ended():
		p.set(func() {
			p.process = nil
			p.lifecycle.lose()
		})
		err = <-started
	}
	p.source.settle(err == nil)
	if err != nil {
		next.answer(fmt.Errorf("what was loaded before stays in its place, because the new one does not run: %w", err))
		return nil
	}
	p.set(func() { next.generation = p.lifecycle.replace() })
	return next
}

// rest waits until it is time to start again: after a pause, or at once for a reload, whose channel it returns.
func (p *Plugin) rest(ctx context.Context, last *life, err error) (asked chan error) {
	pause, stop := p.pause(last, err)
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pause:
			return nil
		case err := <-p.refusals:
			stop()
			pause, stop = p.pause(last, refusal(err))
		case asked := <-p.reloads:
			p.set(p.lifecycle.forgive)
			return asked
		}
	}
}

// pause notes why a life has ended, and returns what tells when it is time for the next one: never, for a plugin that is refused.
func (p *Plugin) pause(last *life, err error) (over <-chan time.Time, stop func()) {
	reason := reasonOf(err)
	if errors.Is(err, errRefused) {
		p.log.Error("plugin is refused", "error", err.Error())
		p.set(func() {
			p.problem = err
			p.lifecycle.refuse(reason)
			p.settle()
		})
		return nil, func() {}
	}
	var timer clock.Timer
	var state State
	var wait time.Duration
	p.set(func() {
		p.problem = err
		wait, _ = p.lifecycle.end(last.generation, reason, p.settings.clock.Now(), p.settings.random())
		state, timer = p.lifecycle.state, p.settings.clock.NewTimer(wait)
		p.settle()
	})
	p.log.Error("plugin is not running; it is started again", "error", err.Error(), "reason", string(reason),
		"pause", wait.String(), "state", string(state))
	return timer.C(), func() { timer.Stop() }
}

// reload starts the plugin afresh, and returns when it runs, or why it does not; a process that runs goes on until another one has
// taken its place, or for good if none could.
func (p *Plugin) reload(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case p.reloads <- done:
	case <-p.ended:
		return ErrNotRunning
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-p.ended:
		return ErrNotRunning
	case <-ctx.Done():
		return ctx.Err()
	}
}

// firstAttempt waits until the first attempt to start has come to an end, and returns how.
func (p *Plugin) firstAttempt(ctx context.Context) error {
	select {
	case <-p.settled:
	case <-p.ended:
		return ErrNotRunning
	case <-ctx.Done():
		return ctx.Err()
	}
	return p.status().Problem
}

// end ends the plugin although the host goes on: it takes no more calls, and has the time of a drain for those under way.
func (p *Plugin) end(ctx context.Context) {
	p.mu.Lock()
	proc := p.process
	p.mu.Unlock()
	if proc != nil {
		proc.drain(ctx, p.settings.clock, p.settings.drain)
	}
	p.discard()
	<-p.ended
}

// refuse has the plugin not used any more until it is reloaded.
func (p *Plugin) refuse(err error) {
	select {
	case p.refusals <- err:
	default: // it is refused already
	}
}

// set changes the state and tells the listener.
func (p *Plugin) set(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	p.settings.changed()
}
