package launch

import (
	"errors"
	"fmt"
	"os/exec"

	"google.golang.org/grpc"

	"github.com/pergola-deploy/pergola/host/internal/plugin/processlog"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
)

// ErrRefused marks errors which another start would only repeat.
var ErrRefused = errors.New("refused")

// Refuse marks an error with ErrRefused.
func Refuse(err error) error { return fmt.Errorf("%w: %w", ErrRefused, err) }

// Process is a process with a connection to it.
type Process struct {
	Conn grpc.ClientConnInterface
	// Output takes what the process writes; nothing for an attached one.
	Output *processlog.Log
	// Confinement describes the confinement for people.
	Confinement string
	// Ended is closed at the end of the process, or of the connection to an attached one.
	Ended <-chan struct{}
	// Kill ends the process with all of its descendants by force, or the connection to an attached one. It does not block.
	Kill func()
	// Stop ends the process in order, and by force after a while. It blocks for a bounded time.
	Stop func()

	cmd *exec.Cmd // nil for an attached one
}

// Attached reports whether the process was started elsewhere.
func (p *Process) Attached() bool { return p.cmd == nil }

// Pid returns the process id; zero for an attached one.
func (p *Process) Pid() int {
	if p.Attached() {
		return 0
	}
	return p.cmd.Process.Pid
}

// Memory returns the resident bytes of the process and its descendants; zero after its end and for an attached one.
func (p *Process) Memory() uint64 {
	if p.Attached() {
		return 0
	}
	bytes, err := sandbox.SessionBytes(p.Pid())
	if err != nil {
		return 0 // it has ended
	}
	return bytes
}

// HasEnded reports whether Ended is closed.
func (p *Process) HasEnded() bool {
	select {
	case <-p.Ended:
		return true
	default:
		return false
	}
}

// Exit describes the end of the process, such as "exit status 2".
func (p *Process) Exit() string {
	if p.Attached() {
		return "the connection was closed"
	}
	return p.cmd.ProcessState.String()
}
