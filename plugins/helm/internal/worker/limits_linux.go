package worker

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// reservedBytes is about the address space reserved by Go before any use, with libraries and threads of C: up to 1.6
// GiB were seen. The number cannot be read: a confined worker does not see /proc/self.
const reservedBytes = 3 << 30

// limitMapped has the kernel bound the address space of this process, far above its limit of memory, so a huge
// allocation fails before any use: while it is filled, as in the function repeat of templates, nothing else may run.
// RLIMIT_DATA would be closer, but does not hold for Go: its heap takes the place of the reservation, and the kernel
// does not check that limit there; then everything else fails, in ways unexpected by a Go program.
func limitMapped(bytes int64) error {
	if raceDetector { // it reserves all address space
		return nil
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err != nil {
		return fmt.Errorf("get the limit of the address space: %w", err)
	}
	limit.Cur = min(limit.Max, 2*uint64(bytes)+reservedBytes) // #nosec G115 -- positive
	if err := unix.Setrlimit(unix.RLIMIT_AS, &limit); err != nil {
		return fmt.Errorf("limit the address space: %w", err)
	}
	return nil
}
