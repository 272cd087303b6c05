package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// behaviour is what a hook does: it hangs, crashes, panics or fails if it is told to, and else returns a result.
type behaviour struct {
	// Unless is a file; the hook has no opinion once it exists.
	Unless string `json:"unless,omitempty"`
	// Job is a file; the hook has an opinion only while it holds the item's job.
	Job string `json:"job,omitempty"`
	// Hang lets the hook return when its time is up.
	Hang bool `json:"hang,omitempty"`
	// Crash ends the process.
	Crash bool `json:"crash,omitempty"`
	// Panic lets the hook panic.
	Panic bool `json:"panic,omitempty"`
	// Error is the text of the hook's error; empty for none.
	Error string `json:"error,omitempty"`
	// Code classifies the error; empty for none.
	Code v1alpha1.ErrorCode `json:"code,omitempty"`
	// Abort, Requeue and RequeueAfter are the result.
	Abort        bool   `json:"abort,omitempty"`
	Requeue      bool   `json:"requeue,omitempty"`
	RequeueAfter string `json:"requeueAfter,omitempty"`
}

func (b behaviour) behave(ctx context.Context, item *v1alpha1.DeployItem) (*hook.Result, error) {
	if b.Unless != "" && exists(b.Unless) {
		return nil, nil //nolint:nilnil // no opinion
	}
	if b.Job != "" {
		job, err := os.ReadFile(b.Job)
		if errors.Is(err, fs.ErrNotExist) || err == nil && string(job) != item.Status.JobID {
			return nil, nil //nolint:nilnil // no opinion
		}
		if err != nil {
			return nil, fmt.Errorf("read job: %w", err)
		}
	}
	switch {
	case b.Hang:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case b.Crash:
		os.Exit(7)
	case b.Panic:
		panic("the configuration asks for it") //nolint:forbidigo // that is the point
	case b.Code != "":
		return nil, &sdk.Error{Codes: []v1alpha1.ErrorCode{b.Code}, Reason: "AskedFor", Err: errors.New(b.Error)}
	case b.Error != "":
		return nil, errors.New(b.Error)
	}
	result := &hook.Result{AbortReconcile: b.Abort, Requeue: b.Requeue}
	if b.RequeueAfter != "" {
		var err error
		if result.RequeueAfter, err = time.ParseDuration(b.RequeueAfter); err != nil {
			return nil, fmt.Errorf("requeueAfter: %w", err)
		}
	}
	return result, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
