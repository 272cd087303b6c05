package sdk

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/internal/document"
	"github.com/pergola-deploy/pergola/sdk/internal/message"
	"github.com/pergola-deploy/pergola/sdk/internal/serving"
)

// resultToWire describes the end of a call. Values without a JSON form, such as in exports, are the deployer's mistake
// and fail the job.
func resultToWire(operation string, req *Request, res *Response, err error) *deployerv1.Result {
	if res == nil {
		res = &Response{}
	}
	out := &deployerv1.Result{}
	if res.ProviderStatus != nil {
		document, statusErr := req.marshalProviderStatus(res.ProviderStatus)
		err = errors.Join(err, internalProblem(statusErr))
		out.ProviderStatus = document
	}
	conditions, conditionsErr := conditionsToWire(res.Conditions)
	err = errors.Join(err, internalProblem(conditionsErr))
	out.Conditions = conditions
	succeeded := &deployerv1.Succeeded{}
	if err == nil && res.InProgress == nil && res.Exports != nil {
		if succeeded.Exports, err = json.Marshal(res.Exports); err != nil {
			err = internalProblem(fmt.Errorf("marshal exports: %w", err))
		}
	}
	switch {
	case err != nil:
		failed := failedToWire(operation, err)
		if first := failed.GetErrors()[0]; res.InProgress != nil {
			first.RetryAfter = durationpb.New(max(first.GetRetryAfter().AsDuration(), res.InProgress.PollAfter))
		}
		out.Outcome = &deployerv1.Result_Failed{Failed: failed}
	case res.InProgress != nil:
		out.Outcome = &deployerv1.Result_InProgress{InProgress: &deployerv1.InProgress{
			PollAfter:  durationpb.New(res.InProgress.PollAfter),
			WaitingFor: res.InProgress.WaitingFor,
		}}
	default:
		out.Outcome = &deployerv1.Result_Succeeded{Succeeded: succeeded}
	}
	return out
}

func conditionsToWire(conditions []Condition) ([]*deployerv1.Condition, error) {
	if err := CheckConditions(conditions); err != nil {
		return nil, err
	}
	return wire.Each(conditions, func(c Condition) *deployerv1.Condition {
		return &deployerv1.Condition{
			Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message,
		}
	}), nil
}

func renderedToWire(res *RenderResponse, err error) *deployerv1.RenderResponse {
	if err != nil {
		failed := failedToWire("Render", err)
		return &deployerv1.RenderResponse{Outcome: &deployerv1.RenderResponse_Failed{Failed: failed}}
	}
	if res == nil {
		res = &RenderResponse{}
	}
	return &deployerv1.RenderResponse{Outcome: &deployerv1.RenderResponse_Children{Children: &deployerv1.Children{
		Children: wire.Each(res.Children, func(c Child) *deployerv1.Child {
			return &deployerv1.Child{Name: c.Name, Object: c.Object}
		}),
	}}}
}

func problemToWire(p Problem) *deployerv1.Problem {
	return &deployerv1.Problem{Field: p.Field, Message: p.Message}
}

func heldToWire(res *HoldingsResponse, err error) *deployerv1.HoldingsResponse {
	if err != nil {
		failed := failedToWire("Holdings", err)
		return &deployerv1.HoldingsResponse{Outcome: &deployerv1.HoldingsResponse_Failed{Failed: failed}}
	}
	if res == nil {
		res = &HoldingsResponse{}
	}
	return &deployerv1.HoldingsResponse{Outcome: &deployerv1.HoldingsResponse_Held{Held: &deployerv1.HoldingList{
		Holdings: wire.Each(res.Holdings, func(h Holding) *deployerv1.Holding {
			return &deployerv1.Holding{
				Namespace: h.Namespace, Name: h.Name,
				Uid: string(h.UID), JobId: h.JobID,
			}
		}),
	}}}
}

func holdingFromWire(in *deployerv1.Holding) Holding {
	return Holding{Namespace: in.GetNamespace(), Name: in.GetName(), UID: types.UID(in.GetUid()), JobID: in.GetJobId()}
}

func collectedToWire(_ struct{}, err error) *deployerv1.CollectResponse {
	if err != nil {
		return &deployerv1.CollectResponse{Failed: failedToWire("Collect", err)}
	}
	return &deployerv1.CollectResponse{}
}

func hookOutcomeToWire(hookType hook.Type, result *hook.Result, err error) *deployerv1.HookOutcome {
	switch {
	case err != nil:
		wired := errorToWire(string(hookType), ReasonHookFailed, err)
		return &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_Error{Error: wired}}
	case result == nil:
		return &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_None{None: &deployerv1.NoResult{}}}
	default:
		return &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_Result{Result: &deployerv1.HookResult{
			Requeue:        result.Requeue,
			RequeueAfter:   durationpb.New(result.RequeueAfter),
			AbortReconcile: result.AbortReconcile,
		}}}
	}
}

// bounded returns a result, or a failure in the place of a result that is too large for a message. Another call would
// not make it smaller.
func bounded(result *deployerv1.Result) *deployerv1.Result {
	size := proto.Size(result)
	if size <= handshake.MaxMessageBytes-1<<10 {
		return result
	}
	err := &Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Reason: ReasonItemTooLarge, Err: fmt.Errorf(
			"the result of the deployer has %d bytes, but a message may have no more than %d", size, handshake.MaxMessageBytes),
	}
	return &deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: failedToWire("Result", err)}}
}

// maxChangeObject bounds the name of a changed object in bytes, as the host does.
const maxChangeObject = 1 << 10

// diffToWire describes the end of Diff. A change without a form on the wire is the deployer's mistake and fails all of
// them: secrets, for instance, can only be hidden in JSON.
func diffToWire(res *DiffResponse, err error) *deployerv1.DiffResponse {
	changes := &deployerv1.Changes{}
	if err == nil && res != nil {
		var errs []error
		for i, change := range res.Changes {
			wired, err := change.toWire()
			if err != nil {
				errs = append(errs, fmt.Errorf("change %d (%.64q): %w", i, change.Object, err))
			}
			changes.Changes = append(changes.Changes, wired)
		}
		err = internalProblem(errors.Join(errs...))
	}
	if err != nil {
		return &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Failed{Failed: failedToWire("Diff", err)}}
	}
	return &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Changes{Changes: changes}}
}

func (c *Change) toWire() (*deployerv1.Change, error) {
	if c.Object == "" || len(c.Object) > maxChangeObject {
		return nil, fmt.Errorf("expected a name of the object of 1 to %d bytes, but it has %d",
			maxChangeObject, len(c.Object))
	}
	if !slices.Contains(Actions(), c.Action) {
		return nil, fmt.Errorf("there is no action %q; expected one of %q", c.Action, Actions())
	}
	before, after, err := document.HideSecrets(c.Before, c.After)
	if err != nil {
		return nil, err
	}
	return &deployerv1.Change{
		Object: c.Object,
		Action: string(c.Action),
		Before: before,
		After:  after,
		Note:   c.Note,
		Waits:  c.Waits,
	}, nil
}

// newRequest reads a start message.
func newRequest(start *deployerv1.Start) (*Request, error) {
	documents, err := message.ReadStart(start)
	if err != nil {
		return nil, err
	}
	return &Request{
		DeployItem:   documents.DeployItem,
		Target:       resolvedTarget(documents.Target),
		Context:      documents.Context,
		Installation: start.GetInstallation(),
		JobID:        start.GetJobId(),
		Forced:       start.GetForced(),
		Children:     childrenFromWire(start.GetChildren()),
		Claims: wire.Each(start.GetClaims(), func(c *deployerv1.Claim) Claim {
			return Claim{DeployItem: c.GetDeployItem(), What: c.GetWhat()}
		}),
		Credentials:  credentialsFromWire(start.GetCredentials()),
		OCMConfig:    ocmConfigFromWire(start.GetOcmConfig()),
		HostCluster:  hostClusterFromWire(start.GetHostCluster()),
		ChecksHealth: start.GetChecksHealth(),
	}, nil
}

// childrenFromWire tells unchanged children (nil) from none (empty).
func childrenFromWire(in *deployerv1.Children) []Child {
	if in == nil {
		return nil
	}
	return append([]Child{}, wire.Each(in.GetChildren(), func(c *deployerv1.Child) Child {
		return Child{Name: c.GetName(), Object: c.GetObject()}
	})...)
}

// resolvedTarget returns a Target with its content; nil for none.
func resolvedTarget(resolved *v1alpha1.ResolvedTarget) *Target {
	if resolved == nil {
		return nil
	}
	return &Target{
		Name:        resolved.Target.Name,
		Type:        resolved.Target.Spec.Type,
		Labels:      resolved.Target.Labels,
		Annotations: resolved.Target.Annotations,
		Content:     []byte(resolved.Content),
	}
}

// credentialsFromWire tells a host without credentials (nil) from a Context without them (empty).
func credentialsFromWire(in *deployerv1.Credentials) *Credentials {
	if in == nil {
		return nil
	}
	return &Credentials{
		Registries: wire.Each(in.GetRegistries(), registryFromWire),
		ChartRepositories: wire.Each(in.GetChartRepositories(),
			func(r *deployerv1.ChartRepositoryCredentials) ChartRepositoryCredentials {
				return ChartRepositoryCredentials{
					URL: r.GetUrl(), CAData: r.GetCaData(), AuthHeader: r.GetAuthHeader(), Problem: r.GetError(),
				}
			}),
	}
}

func registryFromWire(in *deployerv1.RegistryCredentials) RegistryCredentials {
	return RegistryCredentials{Secret: in.GetSecret(), DockerConfig: in.GetDockerConfig(), Problem: in.GetError()}
}

func ocmConfigFromWire(in *deployerv1.OCMConfig) *OCMConfig {
	if in == nil {
		return nil
	}
	return &OCMConfig{ConfigMap: in.GetConfigMap(), Content: in.GetContent(), Problem: in.GetError()}
}

func hostClusterFromWire(in *deployerv1.HostCluster) *HostCluster {
	if in == nil {
		return nil
	}
	return &HostCluster{
		Kubeconfig: in.GetKubeconfig(), Namespace: in.GetNamespace(), Installation: in.GetInstallation(),
	}
}

// errorFromWire reads the host's error for a question; operation and message are its defaults.
func errorFromWire(operation, message string, in *deployerv1.Error) *Error {
	return &Error{
		Codes:     wire.Each(in.GetCodes(), func(code string) v1alpha1.ErrorCode { return v1alpha1.ErrorCode(code) }),
		Operation: cmp.Or(in.GetOperation(), operation),
		Reason:    in.GetReason(),
		Err:       errors.New(cmp.Or(in.GetMessage(), message)),
	}
}

func failedToWire(operation string, err error) *deployerv1.Failed {
	return &deployerv1.Failed{Errors: []*deployerv1.Error{errorToWire(operation, ReasonError, err)}}
}

// errorToWire describes an error. Operation and reason are those of the outermost Error in its chain, or else the
// given ones.
func errorToWire(operation, reason string, err error) *deployerv1.Error {
	outermost := &Error{}
	errors.As(err, &outermost)
	out := &deployerv1.Error{
		Codes:     wire.Each(Codes(err), func(code v1alpha1.ErrorCode) string { return string(code) }),
		Operation: cmp.Or(outermost.Operation, operation),
		Reason:    cmp.Or(outermost.Reason, reason),
		Message:   err.Error() + serving.ConfinementHint(err),
		Heals:     heals(err),
	}
	walk(err, func(e *Error) {
		out.TargetSilent = out.GetTargetSilent() || e.TargetSilent
		if e.RetryAfter > out.GetRetryAfter().AsDuration() {
			out.RetryAfter = durationpb.New(e.RetryAfter)
		}
		if e.Held != (Claim{}) {
			out.Held = &deployerv1.Claim{DeployItem: e.Held.DeployItem, What: e.Held.What}
		}
	})
	return out
}
