package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// resultToWire describes how a call ended. What cannot be described, such as exports that are no JSON, is the
// deployer's mistake and fails the job.
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
		out.Outcome = &deployerv1.Result_Failed{Failed: failedToWire(operation, err)}
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

// HostConditions returns the types of the conditions that the host sets itself. A deployer cannot report them, and a
// result that has one fails with ERR_INTERNAL_PROBLEM.
func HostConditions() []v1alpha1.ConditionType {
	return []v1alpha1.ConditionType{
		"Ready", "Reconciling", "Stalled", "PickedUp", "Started",
		"PluginCrashes", "HookAnswered", "Finalized", "Served",
	}
}

// maxConditions is how many conditions the host takes of one result.
const maxConditions = 8

var (
	conditionType = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	// conditionReason is the pattern of Kubernetes, with a bound of the host.
	conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]{0,254}[A-Za-z0-9_])?$`)
)

// CheckConditions returns what the host would refuse of the conditions of a result, all at once; nil for nothing.
func CheckConditions(conditions []Condition) error {
	var errs []error
	if len(conditions) > maxConditions {
		errs = append(errs, fmt.Errorf("there are %d conditions; at most %d can be reported in one result",
			len(conditions), maxConditions))
	}
	for i, c := range conditions {
		if err := c.check(); err != nil {
			errs = append(errs, fmt.Errorf("condition %q: %w", c.Type, err))
		}
		if slices.ContainsFunc(conditions[:i], func(other Condition) bool { return other.Type == c.Type }) {
			errs = append(errs, fmt.Errorf("condition %q: it is there twice", c.Type))
		}
	}
	return errors.Join(errs...)
}

func (c *Condition) check() error {
	known := []v1alpha1.ConditionStatus{v1alpha1.ConditionTrue, v1alpha1.ConditionFalse, v1alpha1.ConditionUnknown}
	switch {
	case !conditionType.MatchString(string(c.Type)):
		return errors.New("expected a type in CamelCase, of at most 63 letters and digits")
	case slices.Contains(HostConditions(), c.Type):
		return errors.New("the host sets this condition itself; choose another type")
	case !slices.Contains(known, c.Status):
		return fmt.Errorf("expected the status True, False or Unknown, but found %q", c.Status)
	case !conditionReason.MatchString(c.Reason):
		return fmt.Errorf("expected a reason in CamelCase, of at most 256 characters, but found %q", c.Reason)
	}
	return nil
}

func conditionsToWire(conditions []Condition) ([]*deployerv1.Condition, error) {
	if err := CheckConditions(conditions); err != nil {
		return nil, err
	}
	return convert(conditions, func(c Condition) *deployerv1.Condition {
		return &deployerv1.Condition{
			Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message,
		}
	}), nil
}

// convert returns what becomes of each element; nil for none.
func convert[In, Out any](in []In, one func(In) Out) []Out {
	var out []Out
	for _, element := range in {
		out = append(out, one(element))
	}
	return out
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
		Children: convert(res.Children, func(c Child) *deployerv1.Child {
			return &deployerv1.Child{Name: c.Name, Object: c.Object}
		}),
	}}}
}

func problemToWire(p Problem) *deployerv1.Problem {
	return &deployerv1.Problem{Field: p.Field, Message: p.Message}
}

func typeToWire(t v1alpha1.DeployItemType) string { return string(t) }

func heldToWire(res *HoldingsResponse, err error) *deployerv1.HoldingsResponse {
	if err != nil {
		failed := failedToWire("Holdings", err)
		return &deployerv1.HoldingsResponse{Outcome: &deployerv1.HoldingsResponse_Failed{Failed: failed}}
	}
	if res == nil {
		res = &HoldingsResponse{}
	}
	return &deployerv1.HoldingsResponse{Outcome: &deployerv1.HoldingsResponse_Held{Held: &deployerv1.HoldingList{
		Holdings: convert(res.Holdings, func(h Holding) *deployerv1.Holding {
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

func hookArguments(in *deployerv1.RunHooksRequest) (*v1alpha1.DeployItem, *v1alpha1.Target, error) {
	var item *v1alpha1.DeployItem
	if len(in.GetDeployItem()) > 0 {
		if err := json.Unmarshal(in.GetDeployItem(), &item); err != nil {
			return nil, nil, fmt.Errorf("decode deploy item: %w", err)
		}
	}
	var target *v1alpha1.Target
	if len(in.GetTarget()) > 0 {
		if err := json.Unmarshal(in.GetTarget(), &target); err != nil {
			return nil, nil, fmt.Errorf("decode target: %w", err)
		}
	}
	return item, target, nil
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
