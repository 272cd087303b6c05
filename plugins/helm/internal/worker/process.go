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

// maxProcessors bounds the processors of a worker. A chart needs one; the rest is for the garbage collector.
const maxProcessors = 4

// process is a worker as seen by its parent. It has one request at a time.
type process struct {
	// requests is the number of its requests, and busy its CPU time before the last one.
	requests int
	busy     time.Duration
	// idle ends it after a time without a request.
	idle *time.Timer

	// to and from are its standard input and output.
	to      io.WriteCloser
	from    *io.PipeReader
	orders  *gob.Encoder
	reports *gob.Decoder
	stderr  stderr
	// kill kills it, if it has not ended.
	kill context.CancelFunc
	// ended is closed at the end of the process.
	ended chan struct{}
	// state is its exit state; valid once ended is closed.
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
	// A confined worker cannot find out its number of processors itself.
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
		return nil, fmt.Errorf("it ended without a message (%s): %w", child.state, err)
	}
	return child, nil
}

// live starts the process and waits for its end. One thread does all of it, and ends with it: a new process has the
// priority of its starting thread, and the kernel takes that thread for the parent and ends the worker with it.
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
	_ = cmd.Wait() // the same as in cmd.ProcessState, or our kill
	c.state = cmd.ProcessState
	_ = stdout.Close() // it never fails
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

// end kills the process if it has not ended, and returns after its end.
func (c *process) end() {
	c.kill()
	_ = c.to.Close()   // unsent data has no reader
	_ = c.from.Close() // it never fails
	<-c.ended
}
