package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/utils/clock"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// process is one run of a plugin.
type process struct {
	link

	client      deployerv1.DeployerServiceClient
	health      grpc_health_v1.HealthClient
	calls       *calls
	clock       clock.PassiveClock
	log         *slog.Logger
	confinement string // for people
	// capabilities are those that it has told of, set before it takes calls.
	capabilities Capabilities
	// hostCluster gives the access to the host cluster, set with them; nil for none.
	hostCluster HostCluster

	mu        sync.Mutex
	condemned *condemnation
}

// link is what the host has of the process itself.
type link interface {
	// ended is closed when the process has ended, or cannot be reached any more.
	ended() <-chan struct{}
	// state says how it ended.
	state() string
	// pid is the process id; zero for a process that the host has not started.
	pid() int
	// foreign tells that somebody else has started the process, and ends it.
	foreign() bool
	// kill ends the process, and whatever it has started, by force. It does not block.
	kill()
	// stop ends the process in order, and by force when it does not comply. It blocks for a bounded time.
	stop()
	// memory is how many bytes the process and its children have in memory.
	memory() uint64
	droppedLines() uint64
	// logLastWords logs what the plugin has said last. It is called after the end.
	logLastWords(log *slog.Logger)
}

// condemnation is why the host ends a process.
type condemnation struct {
	reason Reason
	why    string
	// culprit is the call that is to blame; nil if it may be any.
	culprit *conversation
}

// condemn kills the process, if nobody else has for another reason.
func (p *process) condemn(c *condemnation) {
	p.mu.Lock()
	first := p.condemned == nil
	if first {
		p.condemned = c
	}
	p.mu.Unlock()
	if first {
		p.log.Error("plugin is killed", "reason", string(c.reason), "error", c.why, "pid", p.pid())
		p.kill()
	}
}

// excuse notes that the host ends the process for a reason that is no call's, unless it has ended already.
func (p *process) excuse() {
	select {
	case <-p.ended():
		return
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.condemned == nil {
		p.condemned = &condemnation{reason: ReasonReload}
	}
}

// excused tells whether the host has ended the process for a reason that is no call's.
func (p *process) excused() bool {
	c := p.sentence()
	return c != nil && c.reason == ReasonReload
}

func (p *process) sentence() *condemnation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.condemned
}

// endedError says why a process has ended that took calls.
type endedError struct {
	reason Reason
	text   string
}

func (e *endedError) Error() string { return e.text }

func (p *process) endError() error {
	if c := p.sentence(); c != nil {
		return &endedError{reason: c.reason, text: "its process was killed: " + c.why}
	}
	return &endedError{reason: ReasonExit, text: "its process ended: " + p.state()}
}

// reasonOf tells why a life has ended that ended with this error.
func reasonOf(err error) Reason {
	if ended := (*endedError)(nil); errors.As(err, &ended) {
		return ended.reason
	}
	return ReasonStart
}

// blame is the error of a call that was under way when the process ended: whether the call may be why.
func (p *process) blame(c *conversation) error {
	switch sentence := p.sentence(); {
	case sentence == nil:
		return ErrCrashed
	case sentence.reason == ReasonReload:
		return ErrNotRunning
	case sentence.culprit != nil && sentence.culprit != c:
		return fmt.Errorf("%w: %w: %s", ErrNotRunning, ErrUnhealthy, sentence.why)
	default:
		return fmt.Errorf("%w: %s", ErrCrashed, sentence.why)
	}
}

// errReplaced ends the calls of a process that another one has replaced and that do not end by themselves.
var errReplaced = fmt.Errorf("%w: another process has taken its place", ErrNotRunning)

// retire ends a process that takes no more calls, once those under way have ended. They have the time of drain for that, and are then
// asked to stop and cancelled. The end of ctx ends it at once.
func (p *process) retire(ctx context.Context, clock clock.WithTicker, drain time.Duration) {
	p.drain(ctx, clock, drain)
	p.excuse()
	p.stop()
}

func (p *process) drain(ctx context.Context, clock clock.WithTicker, drain time.Duration) {
	idle := p.calls.close()
	timer := clock.NewTimer(drain)
	defer timer.Stop()
	select {
	case <-idle:
		return
	case <-p.ended():
		return
	case <-ctx.Done():
		return
	case <-timer.C():
	}
	p.calls.end(errReplaced)
	select {
	case <-idle:
	case <-p.ended():
	case <-ctx.Done():
	}
}
