package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// errRefused marks errors that no other try would change.
var errRefused = errors.New("refused")

func refusal(err error) error { return fmt.Errorf("%w: %w", errRefused, err) }

// supervise keeps the plugin running until ctx ends, and then ends it. It is the only one that starts its process, so
// that however many calls fail at once there is one restart.
func (p *Plugin) supervise(ctx context.Context) {
	if p.program != nil {
		defer p.program.close()
	}
	for ctx.Err() == nil {
		p.set(func() { p.lifecycle.start() })
		proc, err := p.start(ctx)
		if err == nil {
			err = p.serve(ctx, proc)
		}
		p.pause(ctx, err)
	}
	p.set(func() { p.lifecycle.stop() })
}

// start starts a process and brings it to where it can take calls.
func (p *Plugin) start(ctx context.Context) (*process, error) {
	began := p.settings.Clock.Now()
	proc, err := p.startProcess(ctx)
	if err != nil {
		return nil, err
	}
	info, err := p.introduce(ctx, proc)
	if err != nil {
		proc.stop()
		proc.logLastWords()
		return nil, err
	}
	proc.info, proc.hostCluster = info, p.hostClusterFor(info)
	proc.startTook = p.settings.Clock.Since(began)
	return proc, nil
}

// startProcess starts or finds a process that can be asked who it is. It returns when the start timeout has passed or
// ctx has ended, at most a few seconds later. Nothing is left running when it fails.
func (p *Plugin) startProcess(ctx context.Context) (*process, error) {
	if p.program == nil {
		return attach(ctx, p.file, p.settings, p.log)
	}
	err := p.program.open()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		return nil, err // which says nothing about the plugin
	}
	if err == nil {
		p.mu.Lock()
		p.sum = p.program.sum
		p.mu.Unlock()
		err = p.profile.checkSum(p.file, p.program.sum, p.settings.RequireSums)
	}
	if err != nil {
		return nil, refusal(err)
	}
	return launch(ctx, p.program.file, p.program.path(), p.profile, p.settings, p.log)
}

// serve lets a process take calls until it ends or must end, and returns why.
func (p *Plugin) serve(ctx context.Context, proc *process) error {
	p.install(proc)
	attended, stopAttending := context.WithCancel(ctx)
	var attendance sync.WaitGroup
	attendance.Go(func() { p.attend(attended, proc) })
	err := p.untilEnd(ctx, proc)
	stopAttending()
	attendance.Wait()
	inOrder := ctx.Err() != nil || errors.Is(err, errRefused)
	if inOrder {
		proc.markStopped()
	}
	proc.stop()
	p.set(func() {
		p.process = nil
		p.droppedLines += proc.droppedLines()
	})
	if !inOrder {
		proc.logLastWords()
	}
	return err
}

// install makes a process the one that takes calls.
func (p *Plugin) install(proc *process) {
	info := proc.info
	p.log.Info("plugin is running", "name", info.Name, "version", info.Version, "sdk", info.SDKVersion,
		"types", info.Types, "hooks", info.HookedTypes, "pid", proc.pid(), "confinement", proc.confinement, "took",
		proc.startTook.String())
	p.set(func() {
		p.lifecycle.run(p.settings.Clock.Now())
		p.problem, p.info, p.process, p.startTook = nil, info, proc, proc.startTook
		p.settled = true
	})
}

// untilEnd waits until the process ends or must end, and returns why.
func (p *Plugin) untilEnd(ctx context.Context, proc *process) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-proc.ended:
		return proc.endError()
	case err := <-p.refusals:
		return refusal(err)
	}
}

// pause waits until it is time to start again, which never comes for a plugin that is refused. err is why it does not
// run.
func (p *Plugin) pause(ctx context.Context, err error) {
	for ctx.Err() == nil {
		over, stop := p.noteEnd(err)
		select {
		case <-ctx.Done():
		case <-over:
			return
		case refused := <-p.refusals:
			err = refusal(refused)
		}
		stop()
	}
}

// noteEnd notes why the plugin does not run, and returns what tells when it is time to start it again.
func (p *Plugin) noteEnd(err error) (over <-chan time.Time, stop func()) {
	if errors.Is(err, errRefused) {
		p.log.Error("plugin is refused", "error", err.Error())
		p.set(func() {
			p.problem, p.settled = err, true
			p.lifecycle.refuse()
		})
		return nil, func() {}
	}
	reason := reasonOf(err)
	var timer clock.Timer
	var state State
	var wait time.Duration
	p.set(func() {
		wait = p.lifecycle.end(reason, p.settings.Clock.Now(), p.settings.Random())
		p.problem, p.settled = err, true
		state, timer = p.lifecycle.state, p.settings.Clock.NewTimer(wait)
	})
	p.log.Error("plugin is not running; it is started again", "error", err.Error(), "reason", string(reason),
		"pause", wait.String(), "state", string(state))
	return timer.C(), func() { timer.Stop() }
}

// refuse has the plugin not used any more.
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
