// Command chaos is a deployer for tests of the host under disorder and under load: its provider configuration says that it is
// to behave at random, from a seed, or to make its calls wait. It leaves a trace of every call in a file.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
)

// watchInterval is how often a call looks for the file that it waits for.
const watchInterval = 10 * time.Millisecond

// config is the provider configuration.
type config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Trace is a file to which each call appends records when it begins and when it ends.
	Trace string `json:"trace"`
	// Random lets each call do something else; nil for calls that succeed.
	Random *random `json:"random,omitempty"`
	// PollUntil is a file; the job is in progress, always with the same text, until it exists.
	PollUntil string `json:"pollUntil,omitempty"`
	// PollAfter is the pause between these polls.
	PollAfter string `json:"pollAfter,omitempty"`
	// BlockUntil is a file; a call does not return until it exists, the host asks to stop, or the context ends.
	BlockUntil string `json:"blockUntil,omitempty"`
	// Takes is how long a call takes beyond that.
	Takes string `json:"takes,omitempty"`
	// Revision means nothing: a user changes it.
	Revision int `json:"revision,omitempty"`
}

type chaos struct{}

var (
	_ sdk.Deployer        = chaos{}
	_ sdk.Aborter         = chaos{}
	_ sdk.ForceReconciler = chaos{}
)

func main() {
	sdk.Serve(chaos{}, sdk.Name("chaos"), sdk.Version("v1"), sdk.Types("test.pergola.dev/chaos"))
}

// Reconcile behaves as it is told.
func (chaos) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return operate(ctx, "Reconcile", req)
}

// ForceReconcile behaves as it is told.
func (chaos) ForceReconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return operate(ctx, "ForceReconcile", req)
}

// Delete behaves as it is told.
func (chaos) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return operate(ctx, "Delete", req)
}

// Abort behaves as it is told.
func (chaos) Abort(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return operate(ctx, "Abort", req)
}

func operate(ctx context.Context, operation string, req *sdk.Request) (*sdk.Response, error) {
	c := &config{}
	if err := req.DecodeConfig(c); err != nil {
		return nil, err
	}
	t := trace{file: c.Trace, operation: operation, req: req}
	if err := t.record("begin", ""); err != nil {
		return nil, err
	}
	response, err := behave(ctx, c, operation, t)
	return response, t.end(response, err)
}

func behave(ctx context.Context, c *config, operation string, t trace) (*sdk.Response, error) {
	if c.Random != nil {
		return c.Random.behave(ctx, operation, t)
	}
	if c.PollUntil != "" && !exists(c.PollUntil) {
		pollAfter, err := time.ParseDuration(c.PollAfter)
		if err != nil {
			return nil, fmt.Errorf("pollAfter: %w", err)
		}
		return sdk.WaitFor("the file "+c.PollUntil, pollAfter), nil
	}
	if err := block(ctx, t.req, c.BlockUntil); err != nil || c.Takes == "" {
		return nil, err
	}
	takes, err := time.ParseDuration(c.Takes)
	if err != nil {
		return nil, fmt.Errorf("takes: %w", err)
	}
	return nil, pause(ctx, takes)
}

// block waits for a file; for nothing if there is no name.
func block(ctx context.Context, req *sdk.Request, file string) error {
	for file != "" && !exists(file) {
		select {
		case <-req.Stopping():
			return fmt.Errorf("asked to stop")
		default:
		}
		if err := pause(ctx, watchInterval); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
