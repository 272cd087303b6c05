package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	"github.com/pergola-deploy/pergola/host/internal/plugin/session"
	"github.com/pergola-deploy/pergola/host/internal/pluginimage"
)

// errNotTaken reports that the program is not available yet.
var errNotTaken = errors.New("cannot be taken")

// maxAttachPause is the longest pause before another look for a plugin to attach: its debugger may be about to return.
const maxAttachPause = 2 * time.Second

// takeTimeout bounds the pull of a program from its image.
const takeTimeout = 10 * time.Minute

// supervise keeps the plugin running until ctx ends, and then ends it, or until it is refused. Nothing else starts its
// process: however many calls fail at once, there is one restart.
func (p *Plugin) supervise(ctx context.Context) {
	if p.program != nil {
		defer p.program.Close()
	}
	life, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	p.refuse = refuse
	for life.Err() == nil {
		p.update(func() { p.lifecycle.start() })
		r, err := p.start(life)
		if err == nil {
			err = p.serve(life, r)
		}
		switch {
		case life.Err() != nil:
		case errors.Is(err, launch.ErrRefused):
			p.refuse(err)
		case errors.Is(err, errUnneeded):
			p.awaitNeed(life)
		default:
			p.pause(life, err)
		}
	}
	if err := context.Cause(life); errors.Is(err, launch.ErrRefused) {
		p.log.Error("plugin is refused", "error", err.Error())
		p.update(func() {
			p.lifecycle.refuse()
			p.problem = err
		})
		<-ctx.Done()
	}
	p.update(func() { p.lifecycle.state = Stopped })
}

// start starts a process which takes calls.
func (p *Plugin) start(ctx context.Context) (*run, error) {
	began := p.settings.Clock.Now()
	process, err := p.startProcess(ctx)
	if err != nil {
		return nil, err
	}
	r := &run{process: process, session: session.New(process, p.log)}
	if r.info, err = p.introduce(ctx, r.session); err != nil {
		process.Stop()
		r.logLastWords(p.log)
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.startTook = p.settings.Clock.Since(began)
	return r, nil
}

// startProcess starts or attaches a process. It returns at the end of the start timeout or of ctx, at most a few
// seconds later. After an error no process is left.
func (p *Plugin) startProcess(ctx context.Context) (*launch.Process, error) {
	if p.program == nil {
		return launch.Attach(ctx, p.file, p.settings.launch(), p.log)
	}
	if err := p.take(ctx); err != nil {
		return nil, err
	}
	sum, err := p.program.Open()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		return nil, err // the plugin is not to blame
	}
	if err == nil {
		p.mu.Lock()
		p.sum = sum
		p.mu.Unlock()
		err = p.profile.CheckSum(p.file, sum, p.settings.RequireSums)
	}
	if err != nil {
		return nil, launch.Refuse(err)
	}
	return p.program.Launch(ctx, p.profile, p.settings.launch(), p.log)
}

// take pulls the program from its image, if it has one and was not pulled before.
func (p *Plugin) take(ctx context.Context) error {
	profile := p.profile
	if profile.Image == "" || p.program.Known() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	from := pluginimage.Reference{Image: profile.Image, Path: cmp.Or(profile.Path, "/"+p.file), SHA256: profile.SHA256}
	path, sum, err := from.Take(ctx, p.settings.CacheDir, p.file)
	switch {
	case errors.Is(err, pluginimage.ErrUnfit):
		return launch.Refuse(err)
	case err != nil:
		return fmt.Errorf("%w from its image: %w", errNotTaken, err)
	}
	p.program.TakeFrom(path, sum)
	return nil
}

// serve lets a process take calls until it ends or ctx does, or nothing needs it, and returns the reason.
func (p *Plugin) serve(ctx context.Context, r *run) error {
	info, process := r.info, r.process
	p.log.Info(p.verb("plugin is running", "plugin is attached"), "name", info.Name, "version", info.Version,
		"sdk", info.SDKVersion, "types", info.Types, "hooks", info.HookedTypes, "pid", process.Pid(),
		"confinement", process.Confinement, "took", p.startTook.String())
	p.update(func() {
		p.lifecycle.run(p.settings.Clock.Now())
		p.problem, p.info, p.run = nil, info, r
	})
	unneeded := make(chan struct{})
	attended, stopAttending := context.WithCancel(ctx)
	var attendance sync.WaitGroup
	attendance.Go(func() { p.attend(attended, r, func() { close(unneeded) }) })
	var stopped error
	select {
	case <-ctx.Done():
		stopped = ctx.Err()
	case <-unneeded:
		stopped = errUnneeded
	case <-process.Ended:
	}
	stopAttending()
	attendance.Wait()
	if stopped != nil {
		r.session.MarkStopped()
	}
	process.Stop()
	p.update(func() {
		p.run = nil
		p.droppedLines += process.Output.Dropped()
	})
	if stopped != nil {
		return stopped
	}
	r.logLastWords(p.log)
	return r.session.EndError()
}

// verb returns a text for a plugin that the host starts, or for an attached one.
func (p *Plugin) verb(started, attached string) string {
	if p.program == nil {
		return attached
	}
	return started
}

// attend watches a process which takes calls, until ctx ends. It calls unneeded once at most; see checkNeed.
func (p *Plugin) attend(ctx context.Context, r *run, unneeded func()) {
	var all sync.WaitGroup
	all.Go(func() { p.watch(ctx, r) })
	if !r.process.Attached() {
		all.Go(func() { p.checkHealth(ctx, r) })
		all.Go(func() { p.checkMemory(ctx, r, r.process.Memory) })
		all.Go(func() { p.checkNeed(ctx, r, unneeded) })
	}
	all.Wait()
}

// pause notes the reason, and waits until the next start is due or ctx ends.
func (p *Plugin) pause(ctx context.Context, err error) {
	reason := reasonOf(err)
	clock := p.settings.Clock
	p.mu.Lock()
	wait := p.lifecycle.end(reason, clock.Now(), p.settings.Random())
	repeated := false
	if p.program == nil {
		p.lifecycle.look()
		wait = min(wait, maxAttachPause)
		repeated = p.problem != nil && p.problem.Error() == err.Error()
	}
	if errors.Is(err, errNotTaken) {
		p.lifecycle.miss()
	}
	p.problem = err
	p.endStandby()
	state, timer := p.lifecycle.state, clock.NewTimer(wait)
	p.mu.Unlock()
	defer timer.Stop()
	p.settings.changed()
	if !repeated {
		p.log.Error(p.verb("plugin is not running; it is started again", "plugin is not attached; it is looked for"),
			"error", err.Error(), "reason", string(reason), "pause", wait.String(), "state", string(state))
	}
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
