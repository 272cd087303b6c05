package sdk

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// newRequest reads a start message.
func (s *server) newRequest(operation string, start *deployerv1.Start) (*Request, error) {
	item := &v1alpha1.DeployItem{}
	if err := json.Unmarshal(start.GetDeployItem(), item); err != nil {
		return nil, fmt.Errorf("decode deploy item: %w", err)
	}
	if config := start.GetProviderConfiguration(); len(config) > 0 {
		item.Spec.Config = &runtime.RawExtension{Raw: config}
	}
	if status := start.GetProviderStatus(); len(status) > 0 {
		item.Status.ProviderStatus = &runtime.RawExtension{Raw: status}
	}
	target, err := targetFromWire(start.GetTarget())
	if err != nil {
		return nil, err
	}
	lsContext := &v1alpha1.Context{}
	if len(start.GetContext()) > 0 {
		if err := json.Unmarshal(start.GetContext(), lsContext); err != nil {
			return nil, fmt.Errorf("decode context: %w", err)
		}
	}
	return &Request{
		DeployItem:  item,
		Target:      target,
		Context:     lsContext,
		JobID:       start.GetJobId(),
		Children:    childrenFromWire(start.GetChildren()),
		Credentials: credentialsFromWire(start.GetCredentials()),
		HostCluster: hostClusterFromWire(start.GetHostCluster()),
		Log: s.log.With(
			"deployitem", item.Namespace+"/"+item.Name,
			"jobID", start.GetJobId(),
			"operation", operation,
		),
	}, nil
}

// resultToWire describes how a call ended. What cannot be described, such as exports that are no JSON, is the deployer's
// mistake and fails the job.
func resultToWire(operation string, res *Response, err error) *deployerv1.Result {
	out := &deployerv1.Result{}
	if res != nil && res.ProviderStatus != nil {
		document, marshalErr := marshalProviderStatus(res.ProviderStatus)
		err = errors.Join(err, internalProblem(marshalErr))
		out.ProviderStatus = document
	}
	if res != nil && len(res.Conditions) > 0 {
		conditions, conditionsErr := conditionsToWire(res.Conditions)
		err = errors.Join(err, internalProblem(conditionsErr))
		out.Conditions = conditions
	}
	if err != nil {
		out.Outcome = &deployerv1.Result_Failed{Failed: failedToWire(operation, err)}
		return out
	}
	if res != nil && res.InProgress != nil {
		out.Outcome = &deployerv1.Result_InProgress{InProgress: &deployerv1.InProgress{
			PollAfter:  durationpb.New(res.InProgress.PollAfter),
			WaitingFor: res.InProgress.WaitingFor,
		}}
		return out
	}
	succeeded := &deployerv1.Succeeded{}
	if res != nil && res.Exports != nil {
		if succeeded.Exports, err = json.Marshal(res.Exports); err != nil {
			out.Outcome = &deployerv1.Result_Failed{Failed: failedToWire(operation, internalProblem(fmt.Errorf("marshal exports: %w", err)))}
			return out
		}
	}
	out.Outcome = &deployerv1.Result_Succeeded{Succeeded: succeeded}
	return out
}

func internalProblem(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}, Err: err}
}

func failedToWire(operation string, err error) *deployerv1.Failed {
	return &deployerv1.Failed{Errors: []*deployerv1.Error{errorToWire(operation, ReasonError, err)}}
}

// confinementHint tells the user of a confined plugin what permission may be missing: the system's own words do not.
const confinementHint = " (the plugin is confined: it can only write below $TMPDIR, and read what every program needs; an operator can give it " +
	"more with plugins.<name>.confinement of the HostConfiguration)"

// errorToWire describes an error. What it does not say of itself is the given operation and reason.
func errorToWire(operation, reason string, err error) *deployerv1.Error {
	ownOperation, ownReason := describe(err)
	out := &deployerv1.Error{Operation: cmp.Or(ownOperation, operation), Reason: cmp.Or(ownReason, reason), Message: err.Error()}
	if os.Getenv(handshake.ConfinedEnv) != "" && errors.Is(err, fs.ErrPermission) {
		out.Message += confinementHint
	}
	for _, code := range Codes(err) {
		out.Codes = append(out.Codes, string(code))
	}
	return out
}

func renderedToWire(res *RenderResponse, err error) *deployerv1.RenderResponse {
	if err != nil {
		return &deployerv1.RenderResponse{Outcome: &deployerv1.RenderResponse_Failed{Failed: failedToWire("Render", err)}}
	}
	return &deployerv1.RenderResponse{Outcome: &deployerv1.RenderResponse_Children{Children: childrenToWire(res)}}
}

func childrenToWire(res *RenderResponse) *deployerv1.Children {
	out := &deployerv1.Children{}
	if res == nil {
		return out
	}
	for _, child := range res.Children {
		out.Children = append(out.Children, &deployerv1.Child{Name: child.Name, Object: child.Object})
	}
	return out
}

// childrenFromWire keeps apart that nobody changed the children (nil) and that somebody removed them all (empty).
func childrenFromWire(in *deployerv1.Children) []Child {
	if in == nil {
		return nil
	}
	children := make([]Child, 0, len(in.GetChildren()))
	for _, child := range in.GetChildren() {
		children = append(children, Child{Name: child.GetName(), Object: child.GetObject()})
	}
	return children
}

func (r *ConfigureResponse) problems() []Problem {
	if r == nil {
		return nil
	}
	return r.Problems
}

func (r *ValidateResponse) problems() []Problem {
	if r == nil {
		return nil
	}
	return r.Problems
}

func problemsToWire(problems []Problem) []*deployerv1.Problem {
	out := make([]*deployerv1.Problem, 0, len(problems))
	for _, p := range problems {
		out = append(out, &deployerv1.Problem{Field: p.Field, Message: p.Message})
	}
	return out
}

func typesToWire(types []v1alpha1.DeployItemType) []string {
	var out []string
	for _, t := range types {
		out = append(out, string(t))
	}
	return out
}

func hookArguments(in *deployerv1.RunHooksRequest) (*v1alpha1.DeployItem, *v1alpha1.Target, error) {
	var item *v1alpha1.DeployItem
	if len(in.GetDeployItem()) > 0 {
		item = &v1alpha1.DeployItem{}
		if err := json.Unmarshal(in.GetDeployItem(), item); err != nil {
			return nil, nil, fmt.Errorf("decode deploy item: %w", err)
		}
	}
	var target *v1alpha1.Target
	if len(in.GetTarget()) > 0 {
		target = &v1alpha1.Target{}
		if err := json.Unmarshal(in.GetTarget(), target); err != nil {
			return nil, nil, fmt.Errorf("decode target: %w", err)
		}
	}
	return item, target, nil
}

func hookOutcomeToWire(hookType hook.Type, result *hook.Result, err error) *deployerv1.HookOutcome {
	if err != nil {
		return &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_Error{Error: errorToWire(string(hookType), ReasonHookFailed, err)}}
	}
	if result == nil {
		return &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_None{None: &deployerv1.NoResult{}}}
	}
	return &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_Result{Result: &deployerv1.HookResult{
		Requeue:        result.Requeue,
		RequeueAfter:   durationpb.New(result.RequeueAfter),
		AbortReconcile: result.AbortReconcile,
	}}}
}
