// Command counter is a deployer for tests of many hosts and of trouble: its calls take as long as their item says, or
// do something else each time, at random. They leave evidence, across all processes of the machine, of what was
// called when, and of whether two calls for one item were ever under way at the same time.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

// watchInterval is how often a call looks for the file that it waits for.
const watchInterval = 10 * time.Millisecond

// config is the provider configuration.
type config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Dir is a directory for the evidence. Its files are named after namespace and name of the item: "<item>.log" has
	// a record for the beginning and the end of each call, and "<item>.lock" is locked for the time of a call. The file
	// "overlaps" gets a record for each call that has found another one under way.
	Dir string `json:"dir"`
	// BlockUntil is a file; a call does not go on until it exists, the host asks to stop, or the context ends.
	BlockUntil string `json:"blockUntil,omitempty"`
	// Millis is how long a call takes beyond that.
	Millis int `json:"millis,omitempty"`
	// Polls is how many calls of a job leave it in progress before one ends it, always with the same text.
	Polls int `json:"polls,omitempty"`
	// PollUntil is a file; the job is in progress, too, until it exists.
	PollUntil string `json:"pollUntil,omitempty"`
	// PollMillis is the pause between these calls.
	PollMillis int `json:"pollMillis,omitempty"`
	// Random lets each call do something else, and none of the above; nil for calls that succeed.
	Random *random `json:"random,omitempty"`
	// Revision means nothing: a user changes it.
	Revision int `json:"revision,omitempty"`
	// ContinuousReconcile is the schedule. It counts only with the argument schedules.
	ContinuousReconcile *managedresource.ContinuousReconcile `json:"continuousReconcile,omitempty"`
}

type counter struct{}

// scheduler is a counter with schedules. Without them the plugin has no hooks, which would cost those who measure
// something else.
type scheduler struct{ counter }

var (
	_ sdk.Deployer        = counter{}
	_ sdk.Aborter         = counter{}
	_ sdk.ForceReconciler = counter{}
	_ sdk.Hooker          = scheduler{}
)

func main() {
	var deployer sdk.Deployer = counter{}
	if len(os.Args) > 1 && os.Args[1] == "schedules" {
		deployer = scheduler{}
	}
	sdk.Serve(deployer, sdk.Name("counter"), sdk.Version("v1"), sdk.Types("test.pergola.dev/counter"))
}

// Hooks are the schedule.
func (scheduler) Hooks() hook.Hooks {
	schedules := continuousreconcile.FromSpec(continuousreconcile.ReadSpec)
	return hook.Hooks{}.RegisterHookSetup(continuousreconcile.Setup(schedules))
}

// Reconcile counts.
func (counter) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return operate(ctx, "Reconcile", req)
}

// ForceReconcile counts, too.
func (counter) ForceReconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return operate(ctx, "ForceReconcile", req)
}

// Delete counts, too.
func (counter) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return operate(ctx, "Delete", req)
}

// Abort counts, too.
func (counter) Abort(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return operate(ctx, "Abort", req)
}

func operate(ctx context.Context, operation string, req *sdk.Request) (response *sdk.Response, err error) {
	c := &config{}
	if err := req.DecodeConfig(c); err != nil {
		return nil, err
	}
	item := req.DeployItem.Namespace + "-" + req.DeployItem.Name
	e := &evidence{dir: c.Dir, item: item, operation: operation, req: req}
	unlock, err := e.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := e.record("begin", ""); err != nil {
		return nil, err
	}
	if c.Random != nil {
		response, err = c.Random.behave(ctx, e)
	} else {
		response, err = c.count(ctx, e)
	}
	return response, errors.Join(err, e.end(ctx, response, err))
}

// count is a call that takes its time.
func (c *config) count(ctx context.Context, e *evidence) (*sdk.Response, error) {
	if err := block(ctx, e.req, c.BlockUntil); err != nil {
		return nil, err
	}
	if err := pause(ctx, c.Millis); err != nil {
		return nil, err
	}
	waits := c.PollUntil != "" && !exists(c.PollUntil)
	if c.Polls > 0 { // the log of an item that is reconciled for hours is long
		begun, err := e.begun()
		if err != nil {
			return nil, err
		}
		waits = begun <= c.Polls
	}
	if !waits {
		return nil, nil //nolint:nilnil // done, without anything to report
	}
	return sdk.WaitFor("the last call", time.Duration(c.PollMillis)*time.Millisecond), nil
}

// block waits for a file; for nothing if there is no name.
func block(ctx context.Context, req *sdk.Request, file string) error {
	for file != "" && !exists(file) {
		select {
		case <-req.Stopping():
			return errors.New("asked to stop")
		default:
		}
		if err := pause(ctx, int(watchInterval.Milliseconds())); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, millis int) error {
	timer := time.NewTimer(time.Duration(millis) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cancelled: %w", context.Cause(ctx))
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
