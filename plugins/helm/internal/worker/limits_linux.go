package worker

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// reservedBytes is about what Go reserves of the address space before it uses any of it, with libraries and threads of
// C: up to 1.6 GiB were seen. How much it is cannot be asked: a confined worker does not see /proc/self.
const reservedBytes = 3 << 30

// limitMapped has the kernel bound the address space of this process, far above what it may use, so that a huge
// allocation fails before any of it is used: while it is filled, as the function repeat of templates does, nothing else
// may run. RLIMIT_DATA would be closer, but does not hold for Go: its heap takes the place of what was reserved, for
// which the kernel does not look at that limit; then everything else fails, in ways in which a Go program does not
// expect it to.
func limitMapped(bytes int64) error {
	if raceDetector { // which reserves all there is
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
