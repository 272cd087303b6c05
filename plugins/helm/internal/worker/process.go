package worker

import (
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"
)

// maxProcessors is how many processors a worker uses at once. A chart is rendered by one; the rest is for the garbage
// collector.
const maxProcessors = 4

// process is a worker as its parent sees it. It has one request at a time.
type process struct {
	// requests is how many it was given, and busy how much time of processors it had used before the last one.
	requests int
	busy     time.Duration
	// idle ends it while it waits for a request.
	idle *time.Timer

	// to and from are its standard input and output.
	to      io.WriteCloser
	from    *io.PipeReader
	orders  *gob.Encoder
	reports *gob.Decoder
	stderr  stderr
	// kill kills it, if it has not ended.
	kill context.CancelFunc
	// ended is closed when the process has ended.
	ended chan struct{}
	// state is how it ended; valid once ended is closed.
	state *os.ProcessState
}

// start starts a worker, and waits until it can take a request. It lives until end, whatever becomes of ctx then.
func start(ctx context.Context) (*process, error) {
	path, err := programPath()
	if err != nil {
		return nil, fmt.Errorf("find the program: %w", err)
	}
	from, stdout := io.Pipe()
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	child := &process{from: from, reports: gob.NewDecoder(from), kill: kill, ended: make(chan struct{})}
	cmd := exec.CommandContext(life, path) // #nosec G204 -- it is this program
	cmd.Args = []string{workerName}
	// A confined worker cannot find out itself how many processors it may use.
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(min(runtime.GOMAXPROCS(0), maxProcessors)))
	cmd.Stdout, cmd.Stderr = stdout, &child.stderr
	cmd.SysProcAttr = attributes()
	if child.to, err = cmd.StdinPipe(); err != nil {
		kill()
		return nil, fmt.Errorf("create its pipe: %w", err)
	}
	child.orders = gob.NewEncoder(child.to)
	started := make(chan error)
	go child.live(cmd, stdout, started)
	if err := <-started; err != nil {
		kill()
		return nil, err
	}
	dismiss := context.AfterFunc(ctx, kill)
	defer dismiss()
	if err := child.reports.Decode(&report{}); err != nil {
		child.end()
		return nil, fmt.Errorf("hear from it, which has ended (%s): %w", child.state, err)
	}
	return child, nil
}

// live starts the process and waits for its end. One thread does all of it, and ends with it: the priority is that of
// the thread that starts a process, and the kernel takes that thread for the parent whose end ends the worker.
func (c *process) live(cmd *exec.Cmd, stdout *io.PipeWriter, started chan<- error) {
	runtime.LockOSThread()
	err := lowerPriority()
	if err == nil {
		err = cmd.Start()
	}
	started <- err
	if err != nil {
		return
	}
	_ = cmd.Wait() // it says what cmd.ProcessState says, or that we have killed it
	c.state = cmd.ProcessState
	_ = stdout.Close() // which never fails
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

// end kills the process if it has not ended, and returns when nothing is left of it.
func (c *process) end() {
	c.kill()
	_ = c.to.Close()   // what was not sent yet is for nobody
	_ = c.from.Close() // which never fails
	<-c.ended
}
