package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// drainDelay is how long the end of a worker waits for those who inherited its standard error.
const drainDelay = time.Second

// Descriptors of a worker: those of exec.Cmd.ExtraFiles.
const (
	requestFile = 3
	answerFile  = 4
)

// process is a worker as its parent sees it.
type process struct {
	// to and from are the ends of its pipes.
	to, from *os.File
	stderr   *stderr
	kill     context.CancelFunc

	// ended is closed when the process has ended and nothing is left of it.
	ended chan struct{}
	// state is how it ended; valid once ended is closed.
	state *os.ProcessState
}

// start starts a worker. It lives until end, whatever becomes of ctx. What it writes goes to log.
func (p *Pool) start(ctx context.Context, log *slog.Logger) (_ *process, err error) {
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
	requests, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create its pipe: %w", err)
	}
	defer func() { _ = requests.Close() }() // the worker has its own, or never will
	undo = append(undo, to.Close)
	from, answers, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create its pipe: %w", err)
	}
	defer func() { _ = answers.Close() }() // as above
	undo = append(undo, from.Close)

	path, err := programPath()
	if err != nil {
		return nil, fmt.Errorf("find the program: %w", err)
	}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	child := &process{to: to, from: from, stderr: &stderr{log: log}, kill: kill, ended: make(chan struct{})}
	cmd := exec.CommandContext(life, path) // #nosec G204 -- it is this program
	cmd.Args = []string{workerName}
	cmd.Env = append(append([]string(nil), p.environment...), "HOME="+dir, "TMPDIR="+dir)
	cmd.ExtraFiles = []*os.File{requests, answers}
	cmd.Stderr = child.stderr
	cmd.WaitDelay = drainDelay
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	go child.live(cmd, dir, started)
	if err := <-started; err != nil {
		kill()
		return nil, err
	}
	return child, nil
}

// live starts the process and sees to its end. All of it is done by one thread, which ends with it: the priority is that of the thread that
// starts a process, and the kernel takes that thread for the parent whose end ends the worker.
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
	c.kill() // for its context
	c.stderr.flush()
	if err := os.RemoveAll(dir); err != nil {
		c.stderr.log.Warn("the directory of a worker cannot be removed", slog.String("error", err.Error()))
	}
	close(c.ended)
}

// end kills the process if it has not ended, and returns when nothing is left of it.
func (c *process) end() {
	c.kill()
	for _, pipe := range []*os.File{c.to, c.from} {
		_ = pipe.Close() // what was not sent yet is for nobody
	}
	<-c.ended
}
