package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/terminal"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// defaultPoll is when a plugin is called again that names no time, as in a host.
const defaultPoll = 5 * time.Second

// enactment is a job that is carried out.
type enactment struct {
	plugin *plugin.Plugin
	op     plugin.Operation
	call   plugin.Call
	// others are the Targets beside that of the call, by their names.
	others map[string]*v1alpha1.ResolvedTarget
	// secrets are those that the plugin may ask for, and that the Context names.
	secrets fileSecrets
	state   *stateFile
	say     *narrator
	// woken tells of items that may have moved on.
	woken <-chan [2]string
	// again calls the plugin as long as the job is in progress.
	again bool
}

// carryOut calls the plugin, and says how each call ends. The error says why the job has failed.
func (e *enactment) carryOut(ctx context.Context) error {
	waiting, cancel := context.WithDeadline(ctx, e.call.Deadline)
	defer cancel()
	for {
		outcome, err := e.plugin.Call(ctx, e.op, e.call, e)
		if err == nil {
			err = errors.Join(check(outcome), e.keep(outcome))
		}
		if err == nil {
			err = e.say.outcome(outcome)
		}
		if err != nil {
			return fmt.Errorf("%s of item %s: %w", e.op, e.call.DeployItem.Name, err)
		}
		if len(outcome.Errors) > 0 {
			return fmt.Errorf("%s of item %s has failed", e.op, e.call.DeployItem.Name)
		}
		if outcome.InProgress == nil || !e.again {
			return nil
		}
		if err := e.wait(waiting, cmp.Or(outcome.InProgress.PollAfter, defaultPoll)); err != nil {
			return fmt.Errorf("%s of item %s is not done: %w", e.op, e.call.DeployItem.Name, err)
		}
	}
}

// check tells what is wrong with an outcome that a host would not take.
func check(outcome *plugin.Outcome) error {
	if err := contract.CheckReported(outcome.Conditions); err != nil {
		return err
	}
	if outcome.Succeeded == nil || outcome.Succeeded.Exports == nil {
		return nil
	}
	var exports map[string]json.RawMessage
	if err := json.Unmarshal(outcome.Succeeded.Exports, &exports); err != nil {
		return fmt.Errorf("its exports are no JSON object: %w", err)
	}
	return nil
}

// wait waits until it is time to call again.
func (e *enactment) wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	item := [2]string{e.call.DeployItem.Namespace, e.call.DeployItem.Name}
	for {
		select {
		case <-timer.C:
			return nil
		case woken := <-e.woken:
			if woken == item {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// keep keeps what the next call needs. A job that has come to its end is not gone on with; nor is an item that is deleted.
func (e *enactment) keep(outcome *plugin.Outcome) error {
	if outcome.ProviderStatus != nil {
		if err := e.save(outcome.ProviderStatus); err != nil {
			return err
		}
	}
	if outcome.InProgress != nil {
		return e.state.write()
	}
	if outcome.Succeeded != nil && e.op == plugin.Delete {
		return e.state.remove()
	}
	e.state.JobID = ""
	return e.state.write()
}

func (e *enactment) save(document []byte) error {
	if err := e.state.save(document); err != nil {
		return err
	}
	item := e.call.DeployItem.DeepCopy() // the plugin is called with the one before
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: document}
	e.call.DeployItem = item
	return nil
}

var _ plugin.Observer = (*enactment)(nil)

// Progress implements plugin.Observer.
func (e *enactment) Progress(step, message string) {
	e.say.progress(step, message)
}

// SaveProviderStatus implements plugin.Observer.
func (e *enactment) SaveProviderStatus(_ context.Context, document []byte) error {
	if err := e.save(document); err != nil {
		return err
	}
	e.say.saved(document)
	return nil
}

// ResolveTarget implements plugin.Observer.
func (e *enactment) ResolveTarget(_ context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
	if target := e.others[name]; target != nil {
		return target, nil
	}
	if own := e.call.Target; own != nil && own.Target.Name == name {
		return own, nil
	}
	return nil, plugin.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "ResolveOtherTarget", Reason: contract.ReasonTargetNotFound,
		Message: fmt.Sprintf("Target %q: there is no such Target; give the kubeconfig of its cluster with --other-target %[1]s=FILE", name),
	}
}

// ResolveRegistryCredentials implements plugin.Observer.
func (e *enactment) ResolveRegistryCredentials(ctx context.Context, secret types.NamespacedName) (*sdk.RegistryCredentials, error) {
	return target.NamedCredentials(ctx, e.secrets, e.call.DeployItem.Namespace, secret)
}

// Event implements plugin.Observer.
func (e *enactment) Event(warning bool, reason, message string) {
	e.say.event(warning, reason, message)
}

// narrator tells what a plugin says, in a line of text for each thing, or of JSON. It tells nobody that it cannot print until the end.
type narrator struct {
	out  io.Writer
	json bool
	err  error
}

// tell prints one thing: its kind, a text for people, and what it is as JSON.
func (n *narrator) tell(kind, text string, value any) {
	var line []byte
	var err error
	if n.json {
		line, err = json.Marshal(map[string]any{kind: value})
	} else {
		line = fmt.Appendf(nil, "%-15s %s", kind, terminal.Printable(text))
	}
	if err == nil {
		_, err = n.out.Write(append(line, '\n'))
	}
	n.err = errors.Join(n.err, err)
}

func (n *narrator) progress(step, message string) {
	n.tell("progress", step+": "+message, map[string]string{"step": step, "message": message})
}

func (n *narrator) event(warning bool, reason, message string) {
	kind := "Normal"
	if warning {
		kind = "Warning"
	}
	n.tell("event", kind+" "+reason+": "+message, map[string]string{"type": kind, "reason": reason, "message": message})
}

func (n *narrator) saved(document []byte) {
	n.tell("providerStatus", string(document), json.RawMessage(document))
}

// outcome tells how a call ended, and returns why something could not be printed.
func (n *narrator) outcome(o *plugin.Outcome) error {
	if o.ProviderStatus != nil {
		n.saved(o.ProviderStatus)
	}
	for _, c := range o.Conditions {
		n.tell("condition", fmt.Sprintf("%s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message),
			map[string]string{"type": string(c.Type), "status": string(c.Status), "reason": c.Reason, "message": c.Message})
	}
	switch {
	case o.Succeeded != nil:
		text := "without exports"
		if o.Succeeded.Exports != nil {
			text = "exports " + string(o.Succeeded.Exports)
		}
		n.tell("succeeded", text, map[string]json.RawMessage{"exports": o.Succeeded.Exports})
	case o.InProgress != nil:
		text := "waits for " + cmp.Or(o.InProgress.WaitingFor, "something that it does not name")
		n.tell("inProgress", fmt.Sprintf("%s; to be called again after %s", text, cmp.Or(o.InProgress.PollAfter, defaultPoll)),
			map[string]any{"waitingFor": o.InProgress.WaitingFor, "pollAfterSeconds": o.InProgress.PollAfter.Seconds()})
	default:
		for _, e := range o.Errors {
			n.tell("failed", failureText(e), map[string]any{"codes": e.Codes, "operation": e.Operation, "reason": e.Reason, "message": e.Message})
		}
	}
	return n.err
}

// failureText writes an error as a line.
func failureText(e plugin.Error) string {
	codes := make([]string, 0, len(e.Codes))
	for _, code := range e.Codes {
		codes = append(codes, string(code))
	}
	text := e.Reason + ": " + e.Message
	if e.Operation != "" {
		text = e.Operation + ": " + text
	}
	if len(codes) > 0 {
		text = "[" + strings.Join(codes, ", ") + "] " + text
	}
	return text
}
