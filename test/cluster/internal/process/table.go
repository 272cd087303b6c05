// Package process starts programs that outlive their starter, and finds and
// stops them later without ever touching a process that is not theirs.
package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Table is the programs started below one directory: a record of each one's
// process, and its log.
type Table struct {
	// Records and Logs are the directories of the records and the log files.
	// Both must exist before Start is called.
	Records, Logs string
}

// Start starts the command in a session of its own, with its output in the
// program's log, and records its process. It does not wait for the program to
// be of use.
func (t Table) Start(name string, cmd *exec.Cmd) (ID, error) {
	log, err := os.OpenFile(t.Log(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return ID{}, fmt.Errorf("open log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return ID{}, fmt.Errorf("start %s: %w", name, err)
	}
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		return ID{}, t.Explain(name, fmt.Errorf("%s ended at once: %w", name, err))
	}
	record := fmt.Sprintf("%d %d\n", id.PID, id.Start)
	if err := os.WriteFile(t.record(name), []byte(record), 0o644); err != nil {
		return ID{}, errors.Join(
			fmt.Errorf("record process of %s: %w", name, err),
			id.Stop(context.Background(), 0))
	}
	return id, cmd.Process.Release()
}

// Lookup returns the recorded process of a program, which may have ended.
// The error is fs.ErrNotExist if none is recorded.
func (t Table) Lookup(name string) (ID, error) {
	record, err := os.ReadFile(t.record(name))
	if err != nil {
		return ID{}, fmt.Errorf("look up %s: %w", name, err)
	}
	var id ID
	if _, err := fmt.Sscanf(string(record), "%d %d\n", &id.PID, &id.Start); err != nil {
		return ID{}, fmt.Errorf("look up %s: parse %s: %w", name, t.record(name), err)
	}
	return id, nil
}

// Check returns nil if the program is running, and otherwise an error that
// shows the end of its log.
func (t Table) Check(name string) error {
	id, err := t.Lookup(name)
	if err != nil {
		return err
	}
	if !id.Alive() {
		return t.Explain(name, fmt.Errorf("%s is not running", name))
	}
	return nil
}

// Stop stops a program as ID.Stop does and removes its record. A program that
// is not recorded is not an error.
func (t Table) Stop(ctx context.Context, name string, grace time.Duration) error {
	id, err := t.Lookup(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := id.Stop(ctx, grace); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	if err := os.Remove(t.record(name)); err != nil {
		return fmt.Errorf("remove record of %s: %w", name, err)
	}
	return nil
}

// Log returns the path of the program's log file.
func (t Table) Log(name string) string { return filepath.Join(t.Logs, name+".log") }

// Explain adds to an error of the program where its log is and how it ends.
func (t Table) Explain(name string, err error) error {
	return fmt.Errorf("%w\n%s ends with:\n%s", err, t.Log(name), t.tail(name))
}

// tail returns the last lines of the program's log, of at most tailSize bytes.
func (t Table) tail(name string) string {
	const tailSize, tailLines = 8192, 10
	content, err := os.ReadFile(t.Log(name))
	if err != nil {
		return "  (" + err.Error() + ")"
	}
	if len(content) == 0 {
		return "  (nothing: the log is empty)"
	}
	content = content[max(0, len(content)-tailSize):]
	lines := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return "  " + strings.Join(lines, "\n  ")
}

func (t Table) record(name string) string { return filepath.Join(t.Records, name+".pid") }
