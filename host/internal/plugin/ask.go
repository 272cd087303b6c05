package plugin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// maxChildName bounds the key of a desired object, which is made of the names of the object, its kind and its
// namespace.
const maxChildName = 1 << 10

// Rendered are the desired objects of a deploy item. Exactly one of Children and Errors counts: the Errors, if there
// are any.
type Rendered struct {
	// Children have a name each, which no other one has, and are JSON objects with apiVersion and kind.
	Children []sdk.Child
	Errors   []Error
}

// Render asks for the desired objects without applying them. It blocks until the plugin has answered, ctx has ended, or
// the deadline of the call has passed. The error is as with Call.
func (p *Plugin) Render(ctx context.Context, c Call) (*Rendered, error) {
	out, err := ask(ctx, p, c.Deadline, func(ctx context.Context, proc *process) (*deployerv1.RenderResponse, error) {
		start, err := proc.startOf(ctx, c)
		if err != nil {
			return nil, err
		}
		return proc.client.Render(ctx, &deployerv1.RenderRequest{Start: start})
	})
	if err != nil {
		return nil, err
	}
	switch outcome := out.GetOutcome().(type) {
	case *deployerv1.RenderResponse_Failed:
		return &Rendered{Errors: errorsFromWire(outcome.Failed.GetErrors())}, nil
	case *deployerv1.RenderResponse_Children:
		children, err := childrenFromWire(outcome.Children.GetChildren())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return &Rendered{Children: children}, nil
	default:
		return nil, fmt.Errorf("%w: its answer to Render says neither children nor failed", ErrProtocol)
	}
}

func childrenFromWire(in []*deployerv1.Child) ([]sdk.Child, error) {
	children := make([]sdk.Child, 0, len(in))
	seen := make(map[string]bool, len(in))
	for i, child := range in {
		name := child.GetName()
		switch {
		case name == "" || len(name) > maxChildName:
			return nil, fmt.Errorf("the name %q of its desired object %d is empty or longer than %d bytes", cut(name, maxText),
				i, maxChildName)
		case seen[name]:
			return nil, fmt.Errorf("two of its desired objects have the name %q", cut(name, maxText))
		}
		seen[name] = true
		var meta struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if err := json.Unmarshal(child.GetObject(), &meta); err != nil {
			return nil, fmt.Errorf("its desired object %q is no JSON object: %s", cut(name, maxText), bounded(err.Error()))
		}
		if meta.APIVersion == "" || meta.Kind == "" {
			return nil, fmt.Errorf("its desired object %q has no apiVersion or no kind", cut(name, maxText))
		}
		children = append(children, sdk.Child{Name: name, Object: child.GetObject()})
	}
	return children, nil
}

// childrenToWire keeps apart that nobody changed the children (nil) and that somebody removed them all (empty).
func childrenToWire(in []sdk.Child) *deployerv1.Children {
	if in == nil {
		return nil
	}
	out := &deployerv1.Children{}
	for _, child := range in {
		out.Children = append(out.Children, &deployerv1.Child{Name: child.Name, Object: child.Object})
	}
	return out
}

// maxChangeObject bounds the name of what is changed, which is made of the names of the object, its kind and its
// namespace.
const maxChangeObject = 1 << 10

// Diff is what a job would change. Exactly one of Changes and Errors counts: the Errors, if there are any.
type Diff struct {
	// Changes name an object each, and are in the order in which the job would make them. Their actions are those of the
	// sdk, and their states are JSON objects or absent.
	Changes []sdk.Change
	Errors  []Error
}

// Diff asks what a job would change, without changing it. It needs Capabilities.Diff. It blocks until the plugin has
// answered, ctx has ended, or the deadline of the call has passed. The error is as with Call.
func (p *Plugin) Diff(ctx context.Context, c Call) (*Diff, error) {
	out, err := ask(ctx, p, c.Deadline, func(ctx context.Context, proc *process) (*deployerv1.DiffResponse, error) {
		start, err := proc.startOf(ctx, c)
		if err != nil {
			return nil, err
		}
		return proc.client.Diff(ctx, &deployerv1.DiffRequest{Start: start})
	})
	if err != nil {
		return nil, err
	}
	switch outcome := out.GetOutcome().(type) {
	case *deployerv1.DiffResponse_Failed:
		return &Diff{Errors: errorsFromWire(outcome.Failed.GetErrors())}, nil
	case *deployerv1.DiffResponse_Changes:
		changes, err := changesFromWire(outcome.Changes.GetChanges())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return &Diff{Changes: changes}, nil
	default:
		return nil, fmt.Errorf("%w: its answer to Diff says neither changes nor failed", ErrProtocol)
	}
}

func changesFromWire(in []*deployerv1.Change) ([]sdk.Change, error) {
	changes := make([]sdk.Change, 0, len(in))
	for i, change := range in {
		object, action := change.GetObject(), sdk.Action(change.GetAction())
		before, beforeErr := stateFromWire(change.GetBefore())
		after, afterErr := stateFromWire(change.GetAfter())
		switch {
		case object == "" || len(object) > maxChangeObject || !utf8.ValidString(object):
			return nil, fmt.Errorf("the object %q of its change %d is empty, longer than %d bytes or not UTF-8",
				cut(object, maxText), i, maxChangeObject)
		case !slices.Contains(sdk.Actions(), action):
			return nil, fmt.Errorf("its change of %q has the action %q; expected one of %q", cut(object, maxText),
				cut(string(action), maxText), sdk.Actions())
		case beforeErr != nil:
			return nil, fmt.Errorf("its change of %q: the state before it: %w", cut(object, maxText), beforeErr)
		case afterErr != nil:
			return nil, fmt.Errorf("its change of %q: the state after it: %w", cut(object, maxText), afterErr)
		}
		changes = append(changes, sdk.Change{Object: object, Action: action, Before: before, After: after,
			Note: bounded(change.GetNote())})
	}
	return changes, nil
}

// stateFromWire checks the state of an object; nil for none. What is wrong is told without any of it: it is somebody's
// object.
func stateFromWire(in []byte) (json.RawMessage, error) {
	if len(in) == 0 {
		return nil, nil
	}
	if !json.Valid(in) || !utf8.Valid(in) || !bytes.HasPrefix(bytes.TrimLeft(in, " \t\r\n"), []byte("{")) {
		return nil, errors.New("expected a JSON object")
	}
	return in, nil
}

// Holdings asks what the plugin keeps outside of the targets of deploy items. It needs Capabilities.Collect. Names,
// namespaces and UIDs are some that deploy items can have; what else the plugin names is left out and logged. It blocks
// until the plugin has answered or ctx has ended. The error is an Error of the plugin or about the access to the host
// cluster, ErrNotRunning, ErrCrashed, ErrProtocol, or that of ctx, possibly wrapped.
func (p *Plugin) Holdings(ctx context.Context) ([]sdk.Holding, error) {
	out, err := ask(ctx, p, time.Time{}, func(ctx context.Context, proc *process) (*deployerv1.HoldingsResponse, error) {
		cluster, err := proc.access(ctx)
		if err != nil {
			return nil, err
		}
		return proc.client.Holdings(ctx, &deployerv1.HoldingsRequest{HostCluster: cluster})
	})
	if err != nil {
		return nil, err
	}
	switch outcome := out.GetOutcome().(type) {
	case *deployerv1.HoldingsResponse_Failed:
		return nil, failure(outcome.Failed)
	case *deployerv1.HoldingsResponse_Held:
		return p.holdingsFromWire(outcome.Held.GetHoldings()), nil
	default:
		return nil, fmt.Errorf("%w: its answer to Holdings says neither held nor failed", ErrProtocol)
	}
}

// Collect has the plugin remove what it keeps for holdings that nobody needs any more. What is said of Holdings goes
// for it, too.
func (p *Plugin) Collect(ctx context.Context, holdings []sdk.Holding) error {
	out, err := ask(ctx, p, time.Time{}, func(ctx context.Context, proc *process) (*deployerv1.CollectResponse, error) {
		cluster, err := proc.access(ctx)
		if err != nil {
			return nil, err
		}
		return proc.client.Collect(ctx, &deployerv1.CollectRequest{Holdings: holdingsToWire(holdings), HostCluster: cluster})
	})
	if err != nil {
		return err
	}
	if out.GetFailed() != nil {
		return failure(out.GetFailed())
	}
	return nil
}

// failure is the error of a plugin that has failed.
func failure(in *deployerv1.Failed) error {
	var errs []error
	for _, e := range errorsFromWire(in.GetErrors()) {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// holdingsFromWire leaves out what can be of no deploy item: whoever can make something with the marks of the plugin is
// not to keep it from clearing up.
func (p *Plugin) holdingsFromWire(in []*deployerv1.Holding) []sdk.Holding {
	holdings := make([]sdk.Holding, 0, len(in))
	strange := 0
	for _, h := range in {
		if !sound(h) {
			strange++
			continue
		}
		holdings = append(holdings, sdk.Holding{Namespace: h.GetNamespace(), Name: h.GetName(), UID: types.UID(h.GetUid()),
			JobID: h.GetJobId()})
	}
	if strange > 0 {
		p.log.Warn("the plugin keeps something for what can be no deploy item; that stays where it is", "count", strange)
	}
	return holdings
}

func sound(h *deployerv1.Holding) bool {
	return len(validation.IsDNS1123Label(h.GetNamespace())) == 0 && len(validation.IsDNS1123Subdomain(h.GetName())) == 0 &&
		h.GetUid() != "" && len(h.GetUid()) <= maxText && len(h.GetJobId()) <= maxText
}

func holdingsToWire(in []sdk.Holding) []*deployerv1.Holding {
	out := make([]*deployerv1.Holding, 0, len(in))
	for _, h := range in {
		out = append(out, &deployerv1.Holding{Namespace: h.Namespace, Name: h.Name, Uid: string(h.UID), JobId: h.JobID})
	}
	return out
}

const (
	// maxOutcomes bounds the functions that a plugin has for one type of hook.
	maxOutcomes = 100
	// maxRequeueAfter bounds the time after which a hook asks for another reconcile. Asking it again earlier does no harm.
	maxRequeueAfter = 365 * 24 * time.Hour
)

// HookOutcome is what one hook function of a plugin has returned. Without a Result and an Error it has no opinion.
type HookOutcome struct {
	// Result as the function has returned it, but for a RequeueAfter that is never negative nor longer than a year.
	Result *hook.Result
	Error  *Error
}

// RunHooks runs the plugin's hook functions of a type and returns what each has returned, in the order of their
// registration. item and target are nil where the type says so. Of the target everything is sent but spec.config. It
// blocks until the plugin has answered or ctx, which needs a deadline, has ended; a type that the plugin has no
// functions for costs no call. The error is ErrNotRunning, ErrCrashed, ErrProtocol, or that of ctx, possibly wrapped.
func (p *Plugin) RunHooks(ctx context.Context, hookType hook.Type, item *v1alpha1.DeployItem,
	target *v1alpha1.Target) ([]HookOutcome, error) {
	if info := p.Info(); info.Name != "" && !slices.Contains(info.Capabilities.HookTypes, string(hookType)) {
		return nil, nil
	}
	in, err := hooksRequest(hookType, item, target)
	if err != nil {
		return nil, err
	}
	out, err := ask(ctx, p, time.Time{}, func(ctx context.Context, proc *process) (*deployerv1.RunHooksResponse, error) {
		return proc.client.RunHooks(ctx, in, grpc.MaxCallRecvMsgSize(maxAnswerBytes))
	})
	if err != nil {
		return nil, err
	}
	return hookOutcomesFromWire(out.GetOutcomes())
}

func hooksRequest(hookType hook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target) (*deployerv1.RunHooksRequest,
	error) {
	in := &deployerv1.RunHooksRequest{HookType: string(hookType)}
	var err error
	if item != nil {
		if in.DeployItem, err = json.Marshal(item); err != nil {
			return nil, fmt.Errorf("marshal deploy item: %w", err)
		}
	}
	if target != nil {
		bare := *target
		bare.Spec.Configuration = nil
		if in.Target, err = json.Marshal(&bare); err != nil {
			return nil, fmt.Errorf("marshal target: %w", err)
		}
	}
	return in, nil
}

func hookOutcomesFromWire(in []*deployerv1.HookOutcome) ([]HookOutcome, error) {
	if len(in) > maxOutcomes {
		return nil, fmt.Errorf("%w: it answers with %d outcomes of one type of hook, and may have %d", ErrProtocol, len(in),
			maxOutcomes)
	}
	out := make([]HookOutcome, 0, len(in))
	for i, o := range in {
		switch outcome := o.GetOutcome().(type) {
		case *deployerv1.HookOutcome_None:
			out = append(out, HookOutcome{})
		case *deployerv1.HookOutcome_Result:
			out = append(out, HookOutcome{Result: hookResultFromWire(outcome.Result)})
		case *deployerv1.HookOutcome_Error:
			out = append(out, HookOutcome{Error: &errorsFromWire([]*deployerv1.Error{outcome.Error})[0]})
		default:
			return nil, fmt.Errorf("%w: outcome %d of its hooks is neither none, result nor error", ErrProtocol, i)
		}
	}
	return out, nil
}

func hookResultFromWire(in *deployerv1.HookResult) *hook.Result {
	return &hook.Result{
		Requeue:        in.GetRequeue(),
		RequeueAfter:   min(max(in.GetRequeueAfter().AsDuration(), 0), maxRequeueAfter),
		AbortReconcile: in.GetAbortReconcile(),
	}
}

// Hooking returns the plugins whose hooks run for deploy items of a type, whether they run at the moment or not, in the
// order of their names. As For does it returns none before the claims of plugins are settled.
func (s *Set) Hooking(itemType v1alpha1.DeployItemType) []*Plugin {
	var hooking []*Plugin
	for _, p := range s.Admitted() {
		if slices.Contains(p.Info().HookedTypes, itemType) {
			hooking = append(hooking, p)
		}
	}
	slices.SortFunc(hooking, func(a, b *Plugin) int { return cmp.Compare(a.Name(), b.Name()) })
	return hooking
}
