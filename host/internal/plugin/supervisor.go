package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/pluginimage"
)

// errRefused marks errors that no other try would change.
var errRefused = errors.New("refused")

// errNotTaken says that a program is not there yet.
var errNotTaken = errors.New("cannot be taken")

func refusal(err error) error { return fmt.Errorf("%w: %w", errRefused, err) }

const (
	firstPause = 250 * time.Millisecond
	maxPause   = 30 * time.Second
	// stableAfter is how long a process must take calls for the failures before it to be forgotten.
	stableAfter = time.Minute
	// takeTimeout is how long it may take to take a program from its image.
	takeTimeout = 10 * time.Minute
	// crashLoopAfter is how many failures in a row make a crash loop.
	crashLoopAfter = 5
)

// supervise keeps the plugin running until ctx ends, and then ends it, or until it is refused. It is the only one that
// starts its process, so that however many calls fail at once there is one restart.
func (p *Plugin) supervise(ctx context.Context) {
	if p.program != nil {
		defer p.program.close()
	}
	life, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	p.refuse = refuse
	for life.Err() == nil {
		p.update(func() { p.lifecycle.start() })
		proc, err := p.start(life)
		if err == nil {
			err = p.serve(life, proc)
		}
		switch {
		case life.Err() != nil:
		case errors.Is(err, errRefused):
			p.refuse(err)
		default:
			p.pause(life, err)
		}
	}
	if err := context.Cause(life); errors.Is(err, errRefused) {
		p.log.Error("plugin is refused", "error", err.Error())
		p.update(func() { p.lifecycle.state, p.problem, p.settled = Refused, err, true })
		<-ctx.Done()
	}
	p.update(func() { p.lifecycle.state = Stopped })
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
	proc.info, proc.hostCluster, proc.installation = info, p.hostClusterFor(info), p.settings.Installation
	proc.startTook = p.settings.Clock.Since(began)
	return proc, nil
}

// startProcess starts or finds a process that can be asked who it is. It returns when the start timeout has passed or
// ctx has ended, at most a few seconds later. Nothing is left running when it fails.
func (p *Plugin) startProcess(ctx context.Context) (*process, error) {
	if p.program == nil {
		return attach(ctx, p.file, p.settings, p.log)
	}
	if err := p.take(ctx); err != nil {
		return nil, err
	}
	sum, err := p.program.open()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		return nil, err // which says nothing about the plugin
	}
	if err == nil {
		p.mu.Lock()
		p.sum = sum
		p.mu.Unlock()
		err = p.profile.checkSum(p.file, sum, p.settings.RequireSums)
	}
	if err != nil {
		return nil, refusal(err)
	}
	return launch(ctx, p.program.file, p.program.path(), p.profile, p.settings, p.log)
}

// take gets a program from its image that is not there yet.
func (p *Plugin) take(ctx context.Context) error {
	profile := p.profile
	if profile.Image == "" || p.program.sum != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	from := pluginimage.Reference{Image: profile.Image, Path: cmp.Or(profile.Path, "/"+p.file), SHA256: profile.SHA256}
	path, sum, err := from.Take(ctx, p.settings.CacheDir, p.file)
	switch {
	case errors.Is(err, pluginimage.ErrUnfit):
		return refusal(err)
	case err != nil:
		return fmt.Errorf("%w from its image: %w", errNotTaken, err)
	}
	p.program.dir, p.program.sum = filepath.Dir(path), sum
	return nil
}

// serve lets a process take calls until it ends or ctx does, and returns why.
func (p *Plugin) serve(ctx context.Context, proc *process) error {
	info := proc.info
	p.log.Info("plugin is running", "name", info.Name, "version", info.Version, "sdk", info.SDKVersion,
		"types", info.Types, "hooks", info.HookedTypes, "pid", proc.pid(), "confinement", proc.confinement, "took",
		proc.startTook.String())
	p.update(func() {
		p.lifecycle.run(p.settings.Clock.Now())
		p.problem, p.info, p.process, p.startTook = nil, info, proc, proc.startTook
		p.settled = true
	})
	attended, stopAttending := context.WithCancel(ctx)
	var attendance sync.WaitGroup
	attendance.Go(func() { p.attend(attended, proc) })
	select {
	case <-ctx.Done():
	case <-proc.ended:
	}
	stopAttending()
	attendance.Wait()
	if ctx.Err() != nil {
		proc.markStopped()
	}
	proc.stop()
	p.update(func() {
		p.process = nil
		p.droppedLines += proc.output.dropped.Load()
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	proc.logLastWords()
	return proc.endError()
}

// pause notes why the plugin does not run, and waits until it is time to start it again or ctx ends.
func (p *Plugin) pause(ctx context.Context, err error) {
	reason := reasonOf(err)
	clock := p.settings.Clock
	p.mu.Lock()
	wait := p.lifecycle.end(reason, clock.Now(), p.settings.Random())
	if errors.Is(err, errNotTaken) {
		p.lifecycle.state = Missing
	}
	p.problem, p.settled = err, true
	state, timer := p.lifecycle.state, clock.NewTimer(wait)
	p.mu.Unlock()
	defer timer.Stop()
	p.settings.changed()
	p.log.Error("plugin is not running; it is started again", "error", err.Error(), "reason", string(reason),
		"pause", wait.String(), "state", string(state))
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

// update changes the state and tells the listener.
func (p *Plugin) update(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	p.settings.changed()
}

// lifecycle is the state machine of a plugin: the supervisor tells it what happens, and learns how long to wait. Its
// zero value is that of a plugin that was never started.
type lifecycle struct {
	state    State
	runs     time.Time // since when; valid while Running
	failures int       // in a row
	ended    Reason    // why the last process ended; empty before the first end
	restarts map[Reason]int
}

// start notes that a process is being started.
func (l *lifecycle) start() {
	if l.ended != "" {
		if l.restarts == nil {
			l.restarts = map[Reason]int{}
		}
		l.restarts[l.ended]++
	}
	l.state = Starting
}

// run notes that the process takes calls.
func (l *lifecycle) run(now time.Time) { l.state, l.runs = Running, now }

// end notes that the process has ended, and returns how long to wait before the next one: longer from time to time,
// unless it took calls for long. random, from [0, 1), is the jitter.
func (l *lifecycle) end(reason Reason, now time.Time, random float64) (pause time.Duration) {
	if l.state == Running && now.Sub(l.runs) >= stableAfter {
		l.failures = 0
	}
	l.ended = reason
	pause = backoff(l.failures, random)
	l.failures++
	l.state = Backoff
	if l.failures >= crashLoopAfter {
		l.state = CrashLoop
	}
	return pause
}

// backoff is the pause before the next start after so many failures in a row: it doubles from a quarter of a second to
// half a minute. random, from [0, 1), takes up to a fifth off, so that plugins that fail together do not start
// together.
func backoff(failures int, random float64) time.Duration {
	pause := maxPause
	if failures < 16 { // shifting further would overflow
		pause = min(firstPause<<failures, maxPause)
	}
	return pause - time.Duration(random*float64(pause)/5)
}
