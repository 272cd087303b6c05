package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
)

// trace records what happens in one call.
type trace struct {
	file, operation string
	req             *sdk.Request
}

// record is a line of the trace.
type record struct {
	Time      time.Time `json:"time"`
	Event     string    `json:"event"`
	Outcome   string    `json:"outcome,omitempty"`
	Operation string    `json:"operation"`
	JobID     string    `json:"jobID"`
	UID       string    `json:"uid"`
	Name      string    `json:"name"`
	PID       int       `json:"pid"`
}

func (t trace) record(event, outcome string) error {
	line, err := json.Marshal(record{
		Time: time.Now(), Event: event, Outcome: outcome, Operation: t.operation, JobID: t.req.JobID,
		UID: string(t.req.DeployItem.UID), Name: t.req.DeployItem.Name, PID: os.Getpid(),
	})
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return appendTo(t.file, string(line)+"\n")
}

// end records how the call ends and returns the error that it ends with.
func (t trace) end(response *sdk.Response, err error) error {
	outcome := "succeeded"
	switch {
	case err != nil:
		outcome = "failed: " + err.Error()
	case response != nil && response.InProgress != nil:
		outcome = "in progress"
	}
	if failed := t.record("end", outcome); failed != nil {
		return failed
	}
	return err
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	if _, err := f.WriteString(text); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return f.Close()
}
