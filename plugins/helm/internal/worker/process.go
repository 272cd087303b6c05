package worker

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// drainDelay is how long the end of a worker waits for those who inherited its standard error.
const drainDelay = time.Second

// Descriptors of a worker: those of exec.Cmd.ExtraFiles.
const (
	orderFile  = 3
	reportFile = 4
)

// process is a worker as its parent sees it. It has one request at a time.
type process struct {
	// memory is its limit.
	memory int64
	// requests is how many it was given, and busy how much time of processors it had used before the last one.
	requests int
	busy     time.Duration
	// idle ends it while it waits for a request.
	idle *time.Timer

	// to and from are the ends of its pipes.
	to, from *os.File
	bound    *boundedReader
	stderr   *stderr
	// life ends when the process is to end, or has ended.
	life context.Context //nolint:containedctx // the life of the process, which outlives the request
	kill context.CancelFunc

	orders  chan order
	reports chan report
	// closed gets why there are no further reports.
	closed chan error

	// ended is closed when the process has ended and nothing is left of it.
	ended chan struct{}
	// state is how it ended; valid once ended is closed.
	state *os.ProcessState
}

// start starts a worker. It lives until end, whatever becomes of ctx. What it writes goes to log.
func (p *Pool) start(ctx context.Context, memory int64, log *slog.Logger) (_ *process, err error) {
	var undo []func() error
	defer func() {
		if err != nil {
			for _, f := range undo {
				err = errors.Join(err, f())
			}
		}
	}()
	dir, err := os.MkdirTemp("", "worker-")
	if err != nil {
		return nil, fmt.Errorf("create its directory: %w", err)
	}
	undo = append(undo, func() error { return os.RemoveAll(dir) })
	orders, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create its pipe: %w", err)
	}
	defer func() { _ = orders.Close() }() // the worker has its own, or never will
	undo = append(undo, to.Close)
	from, reports, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create its pipe: %w", err)
	}
	defer func() { _ = reports.Close() }() // as above
	undo = append(undo, from.Close)

	path, err := programPath()
	if err != nil {
		return nil, fmt.Errorf("find the program: %w", err)
	}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	child := &process{
		memory: memory, to: to, from: from, bound: &boundedReader{from: from}, stderr: &stderr{log: log}, life: life, kill: kill,
		// There is a place for whatever is sent in a call: the request, the answer and the stop.
		orders: make(chan order, 3), reports: make(chan report), closed: make(chan error, 1), ended: make(chan struct{}),
	}
	child.bound.limit.Store(slackBytes)    // for its first report, which has no request yet
	cmd := exec.CommandContext(life, path) // #nosec G204 -- it is this program
	cmd.Args = []string{workerName}
	cmd.Env = append(append([]string(nil), p.environment...), "HOME="+dir, "TMPDIR="+dir)
	cmd.ExtraFiles = []*os.File{orders, reports}
	cmd.Stderr = child.stderr
	cmd.WaitDelay = drainDelay
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	go child.live(cmd, dir, started)
	if err := <-started; err != nil {
		kill()
		return nil, err
	}
	go child.write()
	go child.read()
	return child, nil
}

// begin prepares the process for a request, with the log for what it writes.
func (c *process) begin(req *helm.Request, log *slog.Logger) {
	c.requests++
	c.bound.limit.Store(maxReport(req))
	c.stderr.begin(log)
}

// send sends an order. It does not block.
func (c *process) send(o order) { c.orders <- o }

// write sends orders until the process is to end.
func (c *process) write() {
	encoder := gob.NewEncoder(c.to)
	for {
		select {
		case o := <-c.orders:
			if err := encoder.Encode(o); err != nil {
				return // the process has ended, which read finds out
			}
		case <-c.life.Done():
			return
		}
	}
}

// read receives reports until there are none.
func (c *process) read() {
	decoder := gob.NewDecoder(c.bound)
	for {
		var r report
		if err := decoder.Decode(&r); err != nil {
			c.closed <- err
			return
		}
		select {
		case c.reports <- r:
		case <-c.life.Done():
			c.closed <- io.EOF
			return
		}
		c.bound.read = 0
	}
}

// live starts the process and waits for its end. One thread does all of it, and ends with it: the priority is that of
// the thread that starts a process, and the kernel takes that thread for the parent whose end ends the worker.
func (c *process) live(cmd *exec.Cmd, dir string, started chan<- error) {
	runtime.LockOSThread()
	if err := lowerPriority(); err != nil {
		started <- fmt.Errorf("lower its priority: %w", err)
		return
	}
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	_ = cmd.Wait() // it says what cmd.ProcessState says, or that we have killed it
	c.state = cmd.ProcessState
	c.stderr.flush()
	if err := os.RemoveAll(dir); err != nil {
		c.stderr.logger().Warn("the directory of a worker cannot be removed", slog.String("error", err.Error()))
	}
	close(c.ended)
}

func (c *process) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// end kills the process if it has not ended, and returns when nothing is left of it. A worker that is confined and so
// cannot be killed ends when its pipe is closed.
func (c *process) end() {
	c.kill()
	for _, pipe := range []*os.File{c.to, c.from} {
		_ = pipe.Close() // what was not sent yet is for nobody
	}
	<-c.ended
}
