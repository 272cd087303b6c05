package plugin

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// lastWordsTime bounds the age of last words at the end of a process.
const lastWordsTime = 10 * time.Second

// process is one run of a plugin which takes calls.
type process struct {
	run    *launch.Process
	client deployerv1.DeployerServiceClient
	health grpc_health_v1.HealthClient
	calls  calls
	log    *slog.Logger
	ending ending

	// The fields below are set before the first call. hostCluster gives the access to the host cluster and installation
	// the mark of deployed objects; both are nil for none.
	info         *Info
	hostCluster  HostCluster
	installation Installation
}

func newProcess(run *launch.Process, log *slog.Logger) *process {
	return &process{
		run: run, log: log, calls: calls{running: map[*conversation]bool{}},
		client: deployerv1.NewDeployerServiceClient(run.Conn), health: grpc_health_v1.NewHealthClient(run.Conn),
	}
}

// logLastWords logs the last words of a process after its end, in one record.
func (p *process) logLastWords() {
	if words := p.run.Output.LastWords(lastWordsTime); len(words) > 0 {
		p.log.Error("last words of the plugin", "pid", p.run.Pid(), "lines", words)
	}
}

// ending is the account of the end of a process.
type ending struct {
	mu      sync.Mutex
	killed  *endError // nil unless the host has killed it
	stopped bool      // the host has ended it in order
	calls   int       // the calls under way at the end, counted at the first error of one
}

// endError is the reason for the end of a process which took calls.
type endError struct {
	reason Reason
	text   string
	call   *conversation // the call to blame; nil if each may be
}

func (e *endError) Error() string { return e.text }

// killFor kills the process. The first reason counts.
func (p *process) killFor(why *endError) {
	p.ending.mu.Lock()
	defer p.ending.mu.Unlock()
	if p.ending.killed == nil {
		p.ending.killed = why
		p.log.Error("plugin is killed", "reason", string(why.reason), "error", why.text, "pid", p.run.Pid())
		p.run.Kill()
	}
}

// markStopped records that the host stopped the process, so running calls are not blamed.
func (p *process) markStopped() {
	p.ending.mu.Lock()
	defer p.ending.mu.Unlock()
	p.ending.stopped = !p.run.HasEnded()
}

// endError returns the reason for the end.
func (p *process) endError() error {
	p.ending.mu.Lock()
	defer p.ending.mu.Unlock()
	if killed := p.ending.killed; killed != nil {
		return fmt.Errorf("its process was killed: %w", killed)
	}
	return &endError{reason: ReasonExit, text: "its process ended: " + p.run.Exit()}
}

// reasonOf returns the reason in an error of a run.
func reasonOf(err error) Reason {
	if ended := (*endError)(nil); errors.As(err, &ended) {
		return ended.reason
	}
	return ReasonStart
}

// callError returns the error of a call which ended with the process: ErrCrashed if the call may be to blame.
func (p *process) callError(c *conversation) error {
	p.ending.mu.Lock()
	defer p.ending.mu.Unlock()
	if p.ending.calls == 0 { // later some may have been removed
		p.ending.calls = p.calls.count()
	}
	crashed := ErrCrashed
	if p.ending.calls > 1 {
		crashed = fmt.Errorf("%w %w", ErrCrashed, ErrBeside)
	}
	switch killed := p.ending.killed; {
	case killed == nil && p.ending.stopped:
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

// silent is called at each health check, and returns a call in which the plugin was silent during so many checks; nil
// for none. A suspended host hears nothing either, so it counts checks and not time.
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
