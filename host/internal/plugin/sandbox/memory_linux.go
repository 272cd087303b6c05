package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dataLimit returns the limit of mapped memory for a limit of resident memory. It is the kernel's backstop between two
// looks of the host, and not the limit itself, for a program maps more than it uses: Go programs of 128 MiB, 512 MiB
// and 2 GiB, with fragmented live heaps of half the size, mapped up to 256 MiB, 716 MiB and 2146 MiB. Threads of C
// libraries, as Python's, map stacks of 8 MiB each.
func dataLimit(memoryBytes uint64) uint64 {
	if memoryBytes == 0 {
		return 0
	}
	return 2*memoryBytes + 512<<20
}

// SessionBytes returns the resident memory of the processes of a session, 0 without processes. Shared memory counts for
// each.
func SessionBytes(session int) (sum uint64, err error) {
	err = eachProcess(func(p processStat) {
		if p.session == session {
			sum += p.residentBytes
		}
	})
	return sum, err
}

// processStat is a part of /proc/PID/stat.
type processStat struct {
	id, parent, session int
	residentBytes       uint64
}

// eachProcess calls visit for each visible process. It reads one small file for each, in some 15 µs.
func eachProcess(visit func(processStat)) error {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) { // it has ended meanwhile
			continue
		}
		if err != nil {
			return err
		}
		stat, err := parseStat(text)
		if err != nil {
			return err
		}
		visit(stat)
	}
	return nil
}

// parseStat reads fields 1, 4, 6 and 24 of proc_pid_stat(5). The second field is the name of the program in brackets,
// with any text.
func parseStat(text []byte) (processStat, error) {
	const parentField, sessionField, residentField = 4 - 3, 6 - 3, 24 - 3
	id, _, _ := strings.Cut(string(text), " ")
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= residentField {
		return processStat{}, fmt.Errorf("read the state of a process: %d fields are too few", len(fields))
	}
	stat, errs := processStat{}, [4]error{}
	stat.id, errs[0] = strconv.Atoi(id)
	stat.parent, errs[1] = strconv.Atoi(fields[parentField])
	stat.session, errs[2] = strconv.Atoi(fields[sessionField])
	pages, err := strconv.ParseUint(fields[residentField], 10, 64)
	errs[3] = err
	if err := errors.Join(errs[:]...); err != nil {
		return processStat{}, fmt.Errorf("read the state of a process: %w", err)
	}
	stat.residentBytes = pages * uint64(os.Getpagesize()) //nolint:gosec // a page has a positive size
	return stat, nil
}
