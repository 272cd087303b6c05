package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/command/local"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// defaultPoll is the default of a host for the time between calls.
const defaultPoll = 5 * time.Second

// job is a job without a cluster.
type job struct {
	*local.Call

	plugin called
	op     plugin.Operation
	state  *stateFile
	say    *printer
	// woken gets a message after a wake-up by the plugin.
	woken <-chan struct{}
	// validates: the job begins, and its plugin checks the provider configuration before it is called.
	validates bool
	// untilDone repeats the call while the job is in progress, or its errors say when to try again.
	untilDone bool
}

// called is a *plugin.Plugin.
type called interface {
	Call(ctx context.Context, op plugin.Operation, c plugin.Call, observer plugin.Observer) (*plugin.Outcome, error)
	Validate(ctx context.Context, c plugin.Call) (*plugin.Validation, error)
}

// run calls the plugin and prints the result of each call. The error is the failure of the job.
func (j *job) run(ctx context.Context) error {
	waiting, cancel := context.WithDeadline(ctx, j.Deadline)
	defer cancel()
	for {
		outcome, err := j.call(ctx)
		if err == nil {
			err = errors.Join(outcome.Refused(), j.keep(outcome))
		}
		if err == nil {
			err = j.say.outcome(outcome)
		}
		if err != nil {
			return fmt.Errorf("%s of item %s: %w", j.op, j.DeployItem.Name, err)
		}
		pause := pauseOf(outcome)
		goesOn := pause > 0 && j.untilDone
		if len(outcome.Errors) > 0 && !goesOn {
			return fmt.Errorf("%s of item %s has failed", j.op, j.DeployItem.Name)
		}
		if !goesOn {
			return nil
		}
		if j.op == plugin.ForceReconcile && outcome.InProgress != nil { // a job is forced once
			j.op = plugin.Reconcile
		}
		if err := j.wait(waiting, pause); err != nil {
			return fmt.Errorf("%s of item %s is not done: %w", j.op, j.DeployItem.Name, err)
		}
	}
}

// call calls the plugin. The first call of a job fails with the problems of its provider configuration.
func (j *job) call(ctx context.Context) (*plugin.Outcome, error) {
	if j.validates {
		j.validates = false
		found, err := j.plugin.Validate(ctx, j.Call.Call)
		if err != nil {
			return nil, err
		}
		if len(found.Errors) > 0 {
			return &plugin.Outcome{Errors: found.Errors}, nil
		}
	}
	return j.plugin.Call(ctx, j.op, j.Call.Call, j)
}

// pauseOf returns the pause before the next call of a job; zero for one that has ended, or whose errors name none.
func pauseOf(outcome *plugin.Outcome) time.Duration {
	if outcome.InProgress != nil {
		return cmp.Or(outcome.InProgress.PollAfter, defaultPoll)
	}
	return hostside.RetryAfter(outcome.Errors)
}

// wait waits for the next call.
func (j *job) wait(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause):
	case <-j.woken:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// keep saves the state for the next call. A finished job is not continued, and a deleted item has no state.
func (j *job) keep(outcome *plugin.Outcome) error {
	if outcome.ProviderStatus != nil {
		if err := j.save(outcome.ProviderStatus); err != nil {
			return err
		}
	}
	if outcome.Succeeded != nil && j.op == plugin.Delete {
		return j.state.remove()
	}
	if pauseOf(outcome) == 0 {
		j.state.JobID = ""
	}
	return j.state.write()
}

func (j *job) save(document []byte) error {
	if err := j.state.save(document); err != nil {
		return err
	}
	item := j.DeployItem.DeepCopy() // the running call has the old item
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: document}
	j.DeployItem = item
	return nil
}

var _ plugin.Observer = (*job)(nil)

// Progress implements plugin.Observer.
func (j *job) Progress(step, message string) {
	j.say.print("progress", step+": "+message, fields{"step": step, "message": message})
}

// SaveProviderStatus implements plugin.Observer.
func (j *job) SaveProviderStatus(_ context.Context, document []byte) error {
	if err := j.save(document); err != nil {
		return err
	}
	j.say.saved(document)
	return nil
}

// Event implements plugin.Observer.
func (j *job) Event(warning bool, reason, message string) {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	j.say.print("event", kind+" "+reason+": "+message, fields{"type": kind, "reason": reason, "message": message})
}
