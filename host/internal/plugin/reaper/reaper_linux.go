package reaper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// interval is how often orphans are looked for.
	interval = time.Second
	// pollInterval is how often it is asked whether one has ended.
	pollInterval = 5 * time.Millisecond
	// maxRounds bounds a look: whoever forks faster than it is killed is met again at the next one.
	maxRounds = 100
)

// Reaper ends orphans.
type Reaper struct {
	log *slog.Logger

	// starting is held by those who start a process, for reading: until its group is known it looks like an orphan.
	starting sync.RWMutex
	mu       sync.Mutex
	groups   map[int]bool // those of plugins
}

// New makes this process the parent of whatever its descendants leave behind, for good, and returns what ends that. There must not be
// two in one process.
func New(log *slog.Logger) (*Reaper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("adopt orphans of plugins: %w", err)
	}
	return &Reaper{log: log, groups: map[int]bool{}}, nil
}

// Start calls start, which starts a process that leads a process group of its own and returns its id. Neither the process nor its group is
// taken for an orphan until forget is called, which must be after the process was waited for. If start fails forget is nil, and
// nothing may be left of the process. The nil Reaper does nothing but to call start.
func (r *Reaper) Start(start func() (pid int, err error)) (forget func(), err error) {
	if r == nil {
		_, err := start()
		return func() {}, err
	}
	r.starting.RLock()
	defer r.starting.RUnlock()
	pid, err := start()
	if err != nil {
		return nil, err
	}
	r.set(pid, true)
	return func() { r.set(pid, false) }, nil
}

func (r *Reaper) set(group int, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known {
		r.groups[group] = true
	} else {
		delete(r.groups, group)
	}
}

// Run ends orphans as they come until ctx ends, and those that are there then. It is called once, and is to end after the last plugin. With
// the nil Reaper it returns at once.
func (r *Reaper) Run(ctx context.Context) {
	if r == nil {
		return
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		r.sweep()
		select {
		case <-ctx.Done():
			r.sweep()
			return
		case <-ticker.C:
		}
	}
}

// sweep ends the orphans that are there, and their children, who are orphans then.
func (r *Reaper) sweep() {
	r.starting.Lock()
	defer r.starting.Unlock()
	for range maxRounds {
		found := r.orphans()
		if len(found) == 0 {
			return
		}
		for _, o := range found {
			r.end(o)
		}
	}
}

// end kills an orphan and waits for it, so that its id is its own until then. One that does not die, such as because of a broken disk, is
// met again at the next look.
func (r *Reaper) end(o process) {
	if !o.zombie {
		r.log.Warn("a process that a plugin has left behind is killed", "pid", o.pid, "program", o.program)
		if err := unix.Kill(o.pid, unix.SIGKILL); err != nil {
			r.log.Error("a process that a plugin has left behind cannot be killed", "pid", o.pid, "error", err.Error())
			return
		}
	}
	for range int(interval / pollInterval) {
		if ended, err := unix.Wait4(o.pid, nil, unix.WNOHANG, nil); ended == o.pid || errors.Is(err, unix.ECHILD) {
			return
		}
		time.Sleep(pollInterval)
	}
}

// orphans are there now. Of those who have ended in a plugin's group only the plugin itself has somebody who waits for it.
func (r *Reaper) orphans() []process {
	self, own := os.Getpid(), unix.Getpgrp()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil // the pattern is right
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []process
	for _, path := range stats {
		p, err := readProcess(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended meanwhile
		}
		if err != nil {
			r.log.Error("orphans of plugins cannot be looked for", "error", err.Error())
			return nil
		}
		if p.parent == self && p.group != own && (!r.groups[p.group] || p.zombie && p.pid != p.group) {
			found = append(found, p)
		}
	}
	return found
}

// process is what is of interest in /proc/<pid>/stat.
type process struct {
	pid, parent, group int
	program            string
	zombie             bool
}

func readProcess(path string) (process, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return process{}, err
	}
	return parseProcess(string(text))
}

// parseProcess reads the first fields of proc_pid_stat(5). The second one is the name of the program in brackets, which may hold
// anything.
func parseProcess(stat string) (process, error) {
	begin, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if begin < 0 || end < begin {
		return process{}, errors.New("read the state of a process: it names no program")
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 3 {
		return process{}, fmt.Errorf("read the state of a process: %d fields are too few", len(fields))
	}
	pid, pidErr := strconv.Atoi(strings.TrimSpace(stat[:begin]))
	parent, parentErr := strconv.Atoi(fields[1])
	group, groupErr := strconv.Atoi(fields[2])
	if err := errors.Join(pidErr, parentErr, groupErr); err != nil {
		return process{}, fmt.Errorf("read the state of a process: %w", err)
	}
	return process{pid: pid, parent: parent, group: group, program: stat[begin+1 : end], zombie: fields[0] == "Z" || fields[0] == "X"}, nil
}
