package worker

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// reservedBytes is about what Go reserves of the address space before it uses any of it, with libraries and threads of
// C: up to 1.6 GiB were seen. How much it is cannot be asked: a confined worker does not see /proc/self.
const reservedBytes = 3 << 30

// limitMapped has the kernel bound the address space of this process, far above what it may use, so that a huge
// allocation fails before any of it is used. RLIMIT_DATA would be closer, but does not hold for Go: its heap takes the
// place of what was reserved, for which the kernel does not look at that limit; then everything else fails, in ways in
// which a Go program does not expect it to. And the process is to write no core, in which there would be credentials.
func limitMapped(bytes int64) error {
	if err := lowerLimit(unix.RLIMIT_CORE, 0); err != nil {
		return fmt.Errorf("limit core dumps: %w", err)
	}
	if raceDetector { // which reserves all there is
		return nil
	}
	if err := lowerLimit(unix.RLIMIT_AS, 2*uint64(bytes)+reservedBytes); err != nil { // #nosec G115 -- positive
		return fmt.Errorf("limit the address space: %w", err)
	}
	return nil
}

// lowerLimit leaves a limit as it is that is lower already.
func lowerLimit(resource int, most uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil {
		return err
	}
	limit.Max = min(limit.Max, most)
	limit.Cur = min(limit.Cur, limit.Max)
	return unix.Setrlimit(resource, &limit)
}
