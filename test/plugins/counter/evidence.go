package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
)

// evidence of one call.
type evidence struct {
	dir, item, operation string
	req                  *sdk.Request
}

// record is a line of a log, in JSON.
type record struct {
	Time                                        time.Time
	Event, Outcome, Operation, JobID, UID, Name string
	PID                                         int
}

// lock locks the item against all calls of all processes, until unlock is called or the process has ended. A call
// that finds the item locked says so, and waits for nobody.
func (e *evidence) lock() (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(e.dir, e.item+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return f.Close, e.recordIn("overlaps", "overlap", "")
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock: %w", err), f.Close())
	}
	return f.Close, nil
}

// record adds to the log of the item.
func (e *evidence) record(event, outcome string) error {
	return e.recordIn(e.item+".log", event, outcome)
}

func (e *evidence) recordIn(file, event, outcome string) error {
	line, err := json.Marshal(record{
		Time: time.Now(), Event: event, Outcome: outcome, Operation: e.operation, JobID: e.req.JobID,
		UID: string(e.req.DeployItem.UID), Name: e.req.DeployItem.Name, PID: os.Getpid(),
	})
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return appendTo(filepath.Join(e.dir, file), string(line)+"\n")
}

// end records how the call ends.
func (e *evidence) end(ctx context.Context, response *sdk.Response, err error) error {
	switch {
	case err != nil && ctx.Err() != nil:
		return e.record("end", "cancelled")
	case err != nil:
		return e.record("end", "failed: "+err.Error())
	case response != nil && response.InProgress != nil:
		return e.record("end", "in progress")
	}
	return e.record("end", "succeeded")
}

// begun is how many calls there were for the job, with this one.
func (e *evidence) begun() (n int, err error) {
	content, err := os.ReadFile(filepath.Join(e.dir, e.item+".log"))
	if err != nil {
		return 0, fmt.Errorf("read log: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return 0, fmt.Errorf("read log: %w", err)
		}
		if r.Event == "begin" && r.JobID == e.req.JobID {
			n++
		}
	}
	return n, nil
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	if _, err := f.WriteString(text); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", file, err), f.Close())
	}
	return f.Close()
}
