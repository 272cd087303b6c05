package plugin

import (
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// stopGrace is how long a process may take to end after it was asked to; then it is killed.
const stopGrace = 3 * time.Second

// lastWordsTime is how old the last words of a plugin may be when it has ended.
const lastWordsTime = 10 * time.Second

// process is one run of a plugin.
type process struct {
	cmd    *exec.Cmd   // nil if somebody else has started it
	output *processLog // what it writes; nothing if somebody else has started it
	// ended is closed when the process has ended, or cannot be reached any more.
	ended <-chan struct{}
	// kill ends the process, and whatever it has started, by force. It does not block.
	kill func()
	// stop ends the process in order, and by force when it does not comply. It blocks for a bounded time.
	stop func()

	client      deployerv1.DeployerServiceClient
	health      grpc_health_v1.HealthClient
	calls       calls
	log         *slog.Logger
	confinement string // for people
	// info is what it says about itself, startTook how long it took to start, hostCluster gives the access to the host
	// cluster and installation the mark of what is deployed; both nil for none. All are set before it takes calls.
	info         *Info
	startTook    time.Duration
	hostCluster  HostCluster
	installation Installation

	mu      sync.Mutex
	killed  *endError // nil if the host has not killed it
	stopped bool      // the host has ended it in order
	atEnd   int       // how many calls were under way when the first of them was found to have ended with the process
}

func newProcess(conn grpc.ClientConnInterface, output *processLog) *process {
	return &process{
		client: deployerv1.NewDeployerServiceClient(conn), health: grpc_health_v1.NewHealthClient(conn),
		calls: calls{running: map[*conversation]bool{}}, output: output, log: output.log,
	}
}

// pid is the process id; zero for a process that the host has not started.
func (p *process) pid() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// memory is how many bytes the process and its children have in memory.
func (p *process) memory() uint64 {
	if p.cmd == nil {
		return 0
	}
	bytes, err := sandbox.SessionBytes(p.pid())
	if err != nil {
		return 0 // it has ended
	}
	return bytes
}

// logLastWords gives whoever looks for the reason of a crash what the plugin has said last, in one record. It is called
// after the end. A plugin that is killed says nothing, and what it has said before has nothing to do with that.
func (p *process) logLastWords() {
	if words := p.output.lastWords(lastWordsTime); len(words) > 0 {
		p.log.Error("last words of the plugin", "pid", p.pid(), "lines", words)
	}
}

// endError is why a process has ended that took calls.
type endError struct {
	reason Reason
	text   string
	call   *conversation // the call that is the cause; nil if it may be any
}

func (e *endError) Error() string { return e.text }

// killFor kills the process, unless it was killed for another reason before.
func (p *process) killFor(why *endError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed == nil {
		p.killed = why
		p.log.Error("plugin is killed", "reason", string(why.reason), "error", why.text, "pid", p.pid())
		p.kill()
	}
}

// hasEnded reports whether the process has ended.
func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// markStopped notes that the host ends the process for a reason that is no call's, unless it has ended already.
func (p *process) markStopped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = !p.hasEnded()
}

// endError says why the process has ended.
func (p *process) endError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.killed != nil:
		return fmt.Errorf("its process was killed: %w", p.killed)
	case p.cmd == nil:
		return &endError{reason: ReasonExit, text: "its process ended: the connection was closed"}
	default:
		return &endError{reason: ReasonExit, text: "its process ended: " + p.cmd.ProcessState.String()}
	}
}

// reasonOf tells why a process has ended that ended with this error.
func reasonOf(err error) Reason {
	if ended := (*endError)(nil); errors.As(err, &ended) {
		return ended.reason
	}
	return ReasonStart
}

// callError is the error of a call that was running when the process ended: ErrCrashed if the call may be the cause.
func (p *process) callError(c *conversation) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.atEnd == 0 { // later some may have been removed
		p.atEnd = p.calls.count()
	}
	crashed := ErrCrashed
	if p.atEnd > 1 {
		crashed = fmt.Errorf("%w %w", ErrCrashed, ErrBeside)
	}
	switch killed := p.killed; {
	case killed == nil && p.stopped:
		return ErrNotRunning
	case killed == nil:
		return crashed
	case killed.call == c:
		return fmt.Errorf("%w: %s", ErrCrashed, killed.text)
	case killed.call != nil:
		return fmt.Errorf("%w: %w: %s", ErrNotRunning, ErrUnhealthy, killed.text)
	default:
		return fmt.Errorf("%w: %s", crashed, killed.text)
	}
}

// calls are the running calls of one process.
type calls struct {
	mu      sync.Mutex
	running map[*conversation]bool
}

func (c *calls) add(conversation *conversation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[conversation] = true
}

func (c *calls) remove(conversation *conversation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, conversation)
}

func (c *calls) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.running)
}

// silent is called at each health check, and returns a call in which the plugin has said nothing since so many checks;
// nil if there is none. Checks are counted, and not time: a host that was stopped itself has heard nothing for a reason
// that is not the plugin's.
func (c *calls) silent(checks int) (silent *conversation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conversation := range c.running {
		if conversation.silentChecks() >= checks {
			silent = conversation
		}
	}
	return silent
}
