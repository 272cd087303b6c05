package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// defaultPoll is when a plugin is called again that names no time, as in a host.
const defaultPoll = 5 * time.Second

// localJob is a job that a command carries out without a cluster.
type localJob struct {
	*localCall

	plugin *plugin.Plugin
	op     plugin.Operation
	state  *stateFile
	say    *narrator
	// woken tells that the item may have moved on.
	woken <-chan struct{}
	// again calls the plugin as long as the job is in progress.
	again bool
}

// carryOut calls the plugin, and says how each call ends. The error says why the job has failed.
func (j *localJob) carryOut(ctx context.Context) error {
	waiting, cancel := context.WithDeadline(ctx, j.Deadline)
	defer cancel()
	for {
		outcome, err := j.plugin.Call(ctx, j.op, j.Call, j)
		if err == nil {
			err = errors.Join(check(outcome), j.keep(outcome))
		}
		if err == nil {
			err = j.say.outcome(outcome)
		}
		if err != nil {
			return fmt.Errorf("%s of item %s: %w", j.op, j.DeployItem.Name, err)
		}
		if len(outcome.Errors) > 0 {
			return fmt.Errorf("%s of item %s has failed", j.op, j.DeployItem.Name)
		}
		if outcome.InProgress == nil || !j.again {
			return nil
		}
		if err := j.wait(waiting, cmp.Or(outcome.InProgress.PollAfter, defaultPoll)); err != nil {
			return fmt.Errorf("%s of item %s is not done: %w", j.op, j.DeployItem.Name, err)
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
func (j *localJob) wait(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause):
	case <-j.woken:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// keep keeps what the next call needs. A job that has come to its end is not gone on with; nor is an item that is
// deleted.
func (j *localJob) keep(outcome *plugin.Outcome) error {
	if outcome.ProviderStatus != nil {
		if err := j.save(outcome.ProviderStatus); err != nil {
			return err
		}
	}
	if outcome.Succeeded != nil && j.op == plugin.Delete {
		return j.state.remove()
	}
	if outcome.InProgress == nil {
		j.state.JobID = ""
	}
	return j.state.write()
}

func (j *localJob) save(document []byte) error {
	if err := j.state.save(document); err != nil {
		return err
	}
	item := j.DeployItem.DeepCopy() // the plugin is called with the one before
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: document}
	j.DeployItem = item
	return nil
}

var _ plugin.Observer = (*localJob)(nil)

// Progress implements plugin.Observer.
func (j *localJob) Progress(step, message string) {
	j.say.tell("progress", step+": "+message, fields{"step": step, "message": message})
}

// SaveProviderStatus implements plugin.Observer.
func (j *localJob) SaveProviderStatus(_ context.Context, document []byte) error {
	if err := j.save(document); err != nil {
		return err
	}
	j.say.saved(document)
	return nil
}

// ResolveTarget implements plugin.Observer.
func (j *localJob) ResolveTarget(_ context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
	if target := j.others[name]; target != nil {
		return target, nil
	}
	if own := j.Target; own != nil && own.Target.Name == name {
		return own, nil
	}
	return nil, plugin.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "ResolveOtherTarget",
		Reason: contract.ReasonTargetNotFound,
		Message: fmt.Sprintf("Target %q: there is no such Target; give the kubeconfig of its cluster with "+
			"--other-target %[1]s=FILE", name),
	}
}

// ResolveRegistryCredentials implements plugin.Observer.
func (j *localJob) ResolveRegistryCredentials(
	ctx context.Context, secret types.NamespacedName,
) (*sdk.RegistryCredentials, error) {
	return lscontext.NamedCredentials(ctx, j.secrets, j.DeployItem.Namespace, secret)
}

// Event implements plugin.Observer.
func (j *localJob) Event(warning bool, reason, message string) {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	j.say.tell("event", kind+" "+reason+": "+message, fields{"type": kind, "reason": reason, "message": message})
}

// narrator tells what a plugin says, in a line of text for each thing, or of JSON. It tells nobody that it cannot print
// until the end.
type narrator struct {
	out  io.Writer
	json bool
	err  error
}

// fields are what a thing is as JSON.
type fields map[string]any

// tell prints one thing: its kind, a text for people, and what it is as JSON.
func (n *narrator) tell(kind, text string, value any) {
	var err error
	if n.json {
		err = json.NewEncoder(n.out).Encode(fields{kind: value})
	} else {
		err = printText(n.out, fmt.Sprintf("%-15s %s\n", kind, inspect.Printable(text)))
	}
	n.err = errors.Join(n.err, err)
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
			fields{"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message})
	}
	switch {
	case o.Succeeded != nil:
		text := "without exports"
		if o.Succeeded.Exports != nil {
			text = "exports " + string(o.Succeeded.Exports)
		}
		n.tell("succeeded", text, fields{"exports": json.RawMessage(o.Succeeded.Exports)})
	case o.InProgress != nil:
		text := fmt.Sprintf("waits for %s; to be called again after %s",
			cmp.Or(o.InProgress.WaitingFor, "something that it does not name"), cmp.Or(o.InProgress.PollAfter, defaultPoll))
		n.tell("inProgress", text,
			fields{"waitingFor": o.InProgress.WaitingFor, "pollAfterSeconds": o.InProgress.PollAfter.Seconds()})
	default:
		for _, e := range o.Errors {
			n.tell("failed", failureText(e),
				fields{"codes": e.Codes, "operation": e.Operation, "reason": e.Reason, "message": e.Message})
		}
	}
	return n.err
}

// failureText writes an error as a line.
func failureText(e plugin.Error) string {
	text := e.Reason + ": " + e.Message
	if e.Operation != "" {
		text = e.Operation + ": " + text
	}
	if len(e.Codes) > 0 {
		text = strings.ReplaceAll(fmt.Sprint(e.Codes), " ", ", ") + " " + text
	}
	return text
}

// stateFile is what is kept of an item between two runs, in place of its status.
type stateFile struct {
	path string // empty for none

	// JobID is that of the running job; empty if there is none.
	JobID string `json:"jobID,omitempty"`
	// ProviderStatus is what the plugin has saved last.
	ProviderStatus json.RawMessage `json:"providerStatus,omitempty"`
}

// readState reads a state file; an empty one if it is not there.
func readState(path string) (*stateFile, error) {
	s := &stateFile{path: path}
	if path == "" {
		return s, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err != nil {
		return nil, fmt.Errorf("read the state in %s: %w", path, err)
	}
	return s, nil
}

// applyTo gives an item what it would have in a cluster where the job runs.
func (s *stateFile) applyTo(item *v1alpha1.DeployItem, op plugin.Operation) {
	item.Status.JobID = s.JobID
	if len(s.ProviderStatus) > 0 {
		item.Status.ProviderStatus = &runtime.RawExtension{Raw: s.ProviderStatus}
	}
	if op == plugin.Delete && item.DeletionTimestamp == nil {
		now := metav1.Now()
		item.DeletionTimestamp = &now
	}
}

// write writes the state, all or nothing: the plugin relies on what it has saved.
func (s *stateFile) write() error {
	if s.path == "" {
		return nil
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.WriteFile(s.path+".new", append(text, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(s.path+".new", s.path)
	}
	if err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	return nil
}

// remove removes the state of an item that is gone.
func (s *stateFile) remove() error {
	if err := os.Remove(s.path); s.path != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the state of the item, which is deleted: %w", err)
	}
	return nil
}

// maxProviderStatus is as much as fits into an object in a cluster.
const maxProviderStatus = 1 << 20

// save keeps a provider status.
func (s *stateFile) save(document []byte) error {
	if len(document) > maxProviderStatus {
		return fmt.Errorf("a provider status has at most %d bytes, but this one has %d", maxProviderStatus, len(document))
	}
	if !json.Valid(document) {
		return errors.New("the provider status is not valid JSON")
	}
	s.ProviderStatus = document
	return s.write()
}
