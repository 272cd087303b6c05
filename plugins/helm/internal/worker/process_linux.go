package worker

import (
	"fmt"
	"syscall"
)

// niceness is the priority of workers: under load the other processes get most of the time.
const niceness = 10

// programPath names this process's program, even if its file was renamed or deleted meanwhile.
func programPath() (string, error) { return "/proc/self/exe", nil }

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// lowerPriority lowers the priority of this thread, and so of its child processes.
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
