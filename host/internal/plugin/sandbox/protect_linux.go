package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Protect keeps other processes of the same user from reading this one's memory, environment and descriptors, and from tracing it; the
// user root with its capabilities stays able to. It is for the host: programs that are not confined, or that the kernel cannot
// confine, run as the same user. The process dumps no core any more. Programs that it starts are not protected.
func Protect() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process not dumpable: %w", err)
	}
	return nil
}
