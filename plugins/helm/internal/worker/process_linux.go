package worker

import (
	"fmt"
	"syscall"
)

// niceness is the priority of workers: the others get most of the time when all of it is wanted.
const niceness = 10

// programPath names what this process executes, even if its file has another name meanwhile, or none.
func programPath() (string, error) { return "/proc/self/exe", nil }

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// lowerPriority lowers that of this thread, and so of the processes that it starts.
func lowerPriority() error {
	const none = 20 // the kernel answers with 20 less the niceness
	found, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		return fmt.Errorf("get the priority: %w", err)
	}
	if none-found >= niceness {
		return nil
	}
	return syscall.Setpriority(syscall.PRIO_PROCESS, 0, niceness)
}
