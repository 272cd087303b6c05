package plugin

import (
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
	// info is what it says about itself, and startTook how long it took to start. Both are set before it takes calls.
	info      *Info
	startTook time.Duration
	// hostCluster gives the access to the host cluster, set with them; nil for none.
	hostCluster HostCluster

	mu      sync.Mutex
	killed  *killReason // nil if the host has not killed it
	stopped bool        // the host has ended it in order
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

// killReason is why the host kills a process.
type killReason struct {
	reason Reason
	why    string
	// call is the call that is the cause; nil if it may be any.
	call *conversation
}

// killFor kills the process, unless it was killed for another reason before.
func (p *process) killFor(r *killReason) {
	p.mu.Lock()
	first := p.killed == nil
	if first {
		p.killed = r
	}
	p.mu.Unlock()
	if first {
		p.log.Error("plugin is killed", "reason", string(r.reason), "error", r.why, "pid", p.pid())
		p.kill()
	}
}

// markStopped notes that the host ends the process for a reason that is no call's, unless it has ended already.
func (p *process) markStopped() {
	select {
	case <-p.ended():
		return
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

// endedError says why a process has ended that took calls.
type endedError struct {
	reason Reason
	text   string
}

func (e *endedError) Error() string { return e.text }

func (p *process) endError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed != nil {
		return &endedError{reason: p.killed.reason, text: "its process was killed: " + p.killed.why}
	}
	return &endedError{reason: ReasonExit, text: "its process ended: " + p.state()}
}

// reasonOf tells why a process has ended that ended with this error.
func reasonOf(err error) Reason {
	if ended := (*endedError)(nil); errors.As(err, &ended) {
		return ended.reason
	}
	return ReasonStart
}

// callError is the error of a call that was running when the process ended: ErrCrashed if the call may be the cause.
func (p *process) callError(c *conversation) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch killed := p.killed; {
	case killed == nil && p.stopped:
		return ErrNotRunning
	case killed == nil:
		return ErrCrashed
	case killed.call != nil && killed.call != c:
		return fmt.Errorf("%w: %w: %s", ErrNotRunning, ErrUnhealthy, killed.why)
	default:
		return fmt.Errorf("%w: %s", ErrCrashed, killed.why)
	}
}
