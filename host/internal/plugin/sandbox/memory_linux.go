package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dataLimit is how much memory of its own a program may map that is meant to keep within so much resident memory. It is the kernel's
// backstop between two looks of the host's, and not the limit itself, for a program maps more than it uses: Go programs of 128 MiB, 512
// MiB and 2 GiB, with live heaps of half the size and of sizes that fragment it, were seen to map up to 256 MiB, 716 MiB and 2146 MiB.
// Threads of C libraries, as Python's, map stacks of 8 MiB each.
func dataLimit(memoryBytes uint64) uint64 {
	if memoryBytes == 0 {
		return 0
	}
	return 2*memoryBytes + 512<<20
}

// ResidentBytes returns how much memory of a process is resident, as top shows it. A process that is gone is fs.ErrNotExist; one that
// has ended and was not waited for has none. The kernel counts for each processor and adds up now and then, so it may be
// off by some megabytes on large machines.
func ResidentBytes(pid int) (uint64, error) {
	stat, err := readStat(strconv.Itoa(pid))
	if err != nil {
		return 0, err
	}
	return stat.residentBytes, nil
}

// GroupResidentBytes returns how much memory the processes of a process group have resident, 0 if there are none. What several of them
// share counts for each. It reads one small file for each process that this one can see, some 15 µs each.
func GroupResidentBytes(pgid int) (uint64, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return 0, err
	}
	defer func() { _ = proc.Close() }() // it was only read
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return 0, err
	}
	var sum uint64
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		stat, err := readStat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has ended meanwhile
		case err != nil:
			return 0, err
		case stat.group == pgid:
			sum += stat.residentBytes
		}
	}
	return sum, nil
}

// stat is what is of interest in /proc/<pid>/stat.
type stat struct {
	group         int
	residentBytes uint64
}

func readStat(pid string) (stat, error) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if errors.Is(err, unix.ESRCH) { // it has ended since the file was opened
		return stat{}, fmt.Errorf("process %s: %w", pid, fs.ErrNotExist)
	}
	if err != nil {
		return stat{}, err
	}
	return parseStat(text)
}

// parseStat reads fields 5 and 24 of proc_pid_stat(5). The second field is the name of the program in brackets, which may hold anything.
func parseStat(text []byte) (stat, error) {
	const group, resident = 5 - 3, 24 - 3
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= resident {
		return stat{}, fmt.Errorf("read the state of a process: %d fields are too few", len(fields))
	}
	pgid, groupErr := strconv.Atoi(fields[group])
	pages, residentErr := strconv.ParseUint(fields[resident], 10, 64)
	if err := errors.Join(groupErr, residentErr); err != nil {
		return stat{}, fmt.Errorf("read the state of a process: %w", err)
	}
	return stat{group: pgid, residentBytes: pages * uint64(os.Getpagesize())}, nil //nolint:gosec // a page has a positive size
}
