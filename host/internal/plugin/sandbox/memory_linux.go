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

// GroupResidentBytes returns how much memory the processes of a process group and their descendants have resident, 0 if there are none.
// Descendants count in whatever group or session they have put themselves. Only a process that has left the group and whose parent has
// ended is out of sight: the kernel forgets whose it was. What several processes share counts for each. It reads one small
// file for each process that this one can see, some 15 µs each.
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
	processes := map[int]stat{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // no process
		}
		stat, err := readStat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has ended meanwhile
		case err != nil:
			return 0, err
		default:
			processes[pid] = stat
		}
	}
	return residentBytes(processes, pgid), nil
}

// residentBytes adds up the processes of a group and their descendants.
func residentBytes(processes map[int]stat, pgid int) uint64 {
	counts := make(map[int]bool, len(processes))
	var sum uint64
	for pid := range processes {
		if countsForGroup(processes, pgid, pid, counts) {
			sum += processes[pid].residentBytes
		}
	}
	return sum
}

// countsForGroup goes up from a process until it finds one that is in the group or is known already, and remembers the answer for all on the
// way. The processes were not looked at all at once, so they may seem to be each other's parents.
func countsForGroup(processes map[int]stat, pgid, pid int, known map[int]bool) bool {
	var way []int
	answer := false
	for {
		process, exists := processes[pid]
		if !exists {
			break
		}
		if decided, ok := known[pid]; ok {
			answer = decided
			break
		}
		way = append(way, pid)
		if process.group == pgid {
			answer = true
			break
		}
		known[pid] = false // until the end of the way, and for good on a round trip
		pid = process.parent
	}
	for _, pid := range way {
		known[pid] = answer
	}
	return answer
}

// stat is what is of interest in /proc/<pid>/stat.
type stat struct {
	parent, group int
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

// parseStat reads fields 4, 5 and 24 of proc_pid_stat(5). The second field is the name of the program in brackets, which may hold anything.
func parseStat(text []byte) (stat, error) {
	const parent, group, resident = 4 - 3, 5 - 3, 24 - 3
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= resident {
		return stat{}, fmt.Errorf("read the state of a process: %d fields are too few", len(fields))
	}
	ppid, parentErr := strconv.Atoi(fields[parent])
	pgid, groupErr := strconv.Atoi(fields[group])
	pages, residentErr := strconv.ParseUint(fields[resident], 10, 64)
	if err := errors.Join(parentErr, groupErr, residentErr); err != nil {
		return stat{}, fmt.Errorf("read the state of a process: %w", err)
	}
	return stat{parent: ppid, group: pgid, residentBytes: pages * uint64(os.Getpagesize())}, nil //nolint:gosec // a page has a positive size
}
