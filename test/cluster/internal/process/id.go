package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

const (
	// pollInterval is how often a process is looked at that is to end. It need
	// not be a child, so there is nothing to wait for.
	pollInterval = 20 * time.Millisecond
	// killTimeout bounds the wait after SIGKILL, which a process in an
	// uninterruptible system call survives.
	killTimeout = 10 * time.Second
)

// ID identifies one process for as long as the machine is up. The kernel uses
// process numbers again, but not together with the same start time.
type ID struct {
	PID int
	// Start is when the process started, in clock ticks since boot.
	Start uint64
}

// Identify returns the identity of the process that has the number now.
// The error is fs.ErrNotExist if there is none; a zombie counts as none.
func Identify(pid int) (ID, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		if errors.Is(err, syscall.ESRCH) {
			err = os.ErrNotExist
		}
		return ID{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	// The second field is the program's name in parentheses, which may itself
	// hold spaces and parentheses. The state and the start time are the third
	// and the twenty-second field.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, start = 3 - 3, 22 - 3
	if len(fields) <= start {
		return ID{}, fmt.Errorf("identify process %d: unexpected format of its stat file", pid)
	}
	if s := fields[state][0]; s == 'Z' || s == 'X' {
		return ID{}, fmt.Errorf("identify process %d: it has ended: %w", pid, os.ErrNotExist)
	}
	ticks, err := strconv.ParseUint(string(fields[start]), 10, 64)
	if err != nil {
		return ID{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return ID{PID: pid, Start: ticks}, nil
}

// Alive reports whether this very process, not another one of its number, is
// running.
func (id ID) Alive() bool {
	now, err := Identify(id.PID)
	return err == nil && now == id
}

// Stop ends the process: it asks with SIGTERM, waits for the grace period and
// then uses SIGKILL; without grace it uses SIGKILL at once. It returns nil as
// soon as the process is gone, also when it was gone before, and never signals
// another process of the same number.
func (id ID) Stop(ctx context.Context, grace time.Duration) error {
	// The handle refers to one process whatever becomes of its number, so what
	// is checked below is what the signals reach.
	handle, err := os.FindProcess(id.PID)
	if err != nil {
		return fmt.Errorf("find process %d: %w", id.PID, err)
	}
	defer func() { _ = handle.Release() }()
	if !id.Alive() {
		return nil
	}
	if grace > 0 {
		if err := id.signal(handle, syscall.SIGTERM); err != nil {
			return err
		}
		if id.gone(ctx, grace) {
			return nil
		}
	}
	if err := id.signal(handle, syscall.SIGKILL); err != nil {
		return err
	}
	if !id.gone(ctx, killTimeout) {
		return fmt.Errorf("process %d is still there after SIGKILL", id.PID)
	}
	return nil
}

func (id ID) signal(handle *os.Process, signal syscall.Signal) error {
	if err := handle.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	return nil
}

// gone waits until the process has ended and reports whether it has.
func (id ID) gone(ctx context.Context, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for id.Alive() {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}
