// Package trial deploys the item of one case and deletes it, makes all calls of the plugin's capabilities meanwhile,
// and judges their visible effects. It knows nothing of the wire.
package trial

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Rule names a rule, as package conformance does.
type Rule string

// The rules.
const (
	ConfigStrict Rule = "config-strict"
	Validate     Rule = "validate"
	Render       Rule = "render"
	Diff         Rule = "diff"
	SaveRefused  Rule = "save-refused"
	Reconcile    Rule = "reconcile"
	CheckHealth  Rule = "check-health"
	Force        Rule = "force"
	Abort        Rule = "abort"
	Delete       Rule = "delete"
)

// Method of a deployer for one call of an operation.
type Method string

// The methods.
const (
	MethodReconcile      Method = "Reconcile"
	MethodForceReconcile Method = "ForceReconcile"
	MethodAbort          Method = "Abort"
	MethodDelete         Method = "Delete"
	MethodCheckHealth    Method = "CheckHealth"
)

// Call is one call for the item of the case.
type Call struct {
	Method Method
	// Name of the call in messages.
	Name string
	// Status is the provider status; nil for none.
	Status json.RawMessage
	// Job is the number of the job for the item.
	Job int
	// Config replaces the provider configuration; nil leaves it.
	Config json.RawMessage
	// OtherItem makes the call for an item of another name.
	OtherItem bool
	// Target replaces the content of the Target; nil leaves it.
	Target []byte
	// Children replace the desired objects; nil leaves them.
	Children []sdk.Child
	Forced   bool
	// Save answers a provider status; nil saves all.
	Save func() error
	// Heard is called for each message; may be nil.
	Heard func()
}

// End is the end of a call. Exactly one of Succeeded, InProgress, Failed and Err is set.
type End struct {
	Succeeded  bool
	InProgress *sdk.InProgress
	// Failed has the errors in one text, with their codes. Final reports whether they end the job.
	Failed string
	Final  bool
	// RetryAfter is the least pause before the next try of a failed call; zero if its errors name none or end the job.
	RetryAfter time.Duration
	Err        error
	// Status of the item after the call. Saved reports whether the call has saved one.
	Status json.RawMessage
	Saved  bool
	// Text describes the end.
	Text string
}

// Plugin makes calls for the item of the case. An error of a question is the deployer's, or about the answer.
type Plugin interface {
	Call(ctx context.Context, call Call) End
	Validate(ctx context.Context, config json.RawMessage) ([]sdk.Problem, error)
	Render(ctx context.Context, status json.RawMessage) ([]sdk.Child, error)
	Diff(ctx context.Context, status json.RawMessage) ([]sdk.Change, error)
	Holdings(ctx context.Context) ([]sdk.Holding, error)
}

// Trial is a trial of one case.
type Trial struct {
	Plugin Plugin
	Can    hostside.Capabilities
	// Name of the case, UID of its item, and its provider configuration, valid and with an unknown field.
	Name                string
	UID                 types.UID
	Config, WithUnknown json.RawMessage
	UnknownField        string
	BaitTargets         map[string][]byte // none for a case without a Target
	// Timeout of each job, Moment until a call is cut short or a failed one is tried again, MaxPoll between calls.
	Timeout, Moment, MaxPoll time.Duration
	// Checked gets each checked rule, Broken each breach.
	Checked func(rule Rule)
	Broken  func(rule Rule, message string)
}

func (t *Trial) breaks(rule Rule, where, format string, args ...any) {
	t.Broken(rule, fmt.Sprintf("case %q: %s: ", t.Name, where)+fmt.Sprintf(format, args...))
}

// Run deploys the item and deletes it, twice. Whatever is left of a failed deployment is deleted, too, also when ctx
// ends.
func (t *Trial) Run(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	before := t.preview(ctx)
	t.refuseUnknownField(ctx)
	t.refuseTargets(ctx)
	status := t.refuseSaves(ctx)
	status = t.interrupt(ctx, status)
	status, ok := t.deploy(ctx, before, status)
	if t.delete(ctx, status) && ok {
		t.forgotten(ctx, before)
		t.again(ctx)
	}
}

// once makes one call.
func (t *Trial) once(ctx context.Context, call Call) End {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	return t.Plugin.Call(ctx, call)
}

// job repeats an operation until it is done, and checks that it succeeds. A deletion goes on when ctx ends.
func (t *Trial) job(ctx context.Context, rule Rule, call Call) End {
	if call.Method == MethodDelete {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	t.Checked(rule)
	end := t.untilDone(ctx, call)
	if !end.Succeeded {
		t.breaks(rule, call.Name, "expected success within %s, but it %s", t.Timeout, end.Text)
	}
	return end
}

// untilDone repeats an operation while it is in progress. After the first answer a forced job goes on with Reconcile.
func (t *Trial) untilDone(ctx context.Context, call Call) End {
	for {
		end := t.answered(ctx, call)
		if end.InProgress == nil {
			return end
		}
		if t.pause(ctx, end); ctx.Err() != nil {
			return end
		}
		if call.Status = end.Status; call.Method == MethodForceReconcile {
			call.Method = MethodReconcile
		}
	}
}

// answered repeats a call while its errors do not end the job, as a host does. If the time ends during a try, the
// error of the one before it says more.
func (t *Trial) answered(ctx context.Context, call Call) End {
	var last End
	for {
		end := t.Plugin.Call(ctx, call)
		switch {
		case end.Err != nil && ctx.Err() != nil && last.Failed != "":
			return last
		case end.Failed == "" || end.Final:
			return end
		}
		if wait(ctx, max(end.RetryAfter, t.Moment)); ctx.Err() != nil {
			return end
		}
		last, call.Status = end, end.Status
	}
}

// ask repeats a question as answered does a call.
func ask[T any](ctx context.Context, t *Trial, question func(context.Context) (T, error)) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	var last error
	for {
		answer, err = question(ctx)
		var failed interface{ Codes() []v1alpha1.ErrorCode }
		switch isFailure := errors.As(err, &failed); {
		case err != nil && !isFailure && ctx.Err() != nil && last != nil:
			return answer, last
		case !isFailure || slices.ContainsFunc(failed.Codes(), v1alpha1.ErrorCode.EndsJob):
			return answer, err
		}
		if wait(ctx, t.Moment); ctx.Err() != nil {
			return answer, err
		}
		last = err
	}
}

// pause waits for the next call of a job in progress. A deployer may be called earlier than it asked for at any time.
func (t *Trial) pause(ctx context.Context, end End) {
	wait(ctx, min(cmp.Or(max(end.InProgress.PollAfter, 0), t.MaxPoll), t.MaxPoll))
}

func wait(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
