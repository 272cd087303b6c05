package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// hooksOnly makes the service one that brings nothing but hooks, and has no other methods.
func hooksOnly(i *deployerv1.GetInfoResponse) {
	i.DeployItemTypes, i.HookedDeployItemTypes = nil, []string{rawType}
	i.ConfigurationSchema, i.ProviderConfigurationSchemas = nil, nil
	i.Capabilities = &deployerv1.Capabilities{HookTypes: []string{"End", "Start"}}
}

// answers gives one outcome for each of the hook types that the service lists.
func answers(outcome *deployerv1.HookOutcome) func(*service) {
	return func(s *service) {
		s.outcomes = func(hookType string) []*deployerv1.HookOutcome {
			if hookType != "Start" && hookType != "End" {
				return nil
			}
			return []*deployerv1.HookOutcome{outcome}
		}
	}
}

func hookError(reason, message string) *deployerv1.HookOutcome {
	return &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_Error{Error: &deployerv1.Error{Reason: reason, Message: message}}}
}

var ofTheHooks = map[string]misbehaviour{
	"NoOutcome": {
		reason:  "one function has one outcome",
		want:    []Rule{RuleHooksAnswer},
		service: func(s *service) { s.outcomes = func(string) []*deployerv1.HookOutcome { return nil } },
	},
	"HookForUnknown": {
		reason: "a type that is not there has no function",
		want:   []Rule{RuleHooksAnswer},
		service: func(s *service) {
			s.outcomes = func(hookType string) []*deployerv1.HookOutcome {
				if hookType == "Start" || hookType == "End" || hookType == unknownHook {
					return []*deployerv1.HookOutcome{noOpinion()}
				}
				return nil
			}
		},
	},
	"HidesHook": {
		reason:  "the host does not call for a type that is not listed",
		want:    []Rule{RuleHooksAnswer},
		service: withInfo(func(i *deployerv1.GetInfoResponse) { i.Capabilities.HookTypes = []string{"Start"} }),
	},
	"EmptyOutcome": {reason: "no opinion is said, too", want: []Rule{RuleHookOutcomes}, service: answers(&deployerv1.HookOutcome{})},
	"RequeuesInThePast": {
		reason: "nobody can wait for that",
		want:   []Rule{RuleHookOutcomes},
		service: answers(&deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_Result{
			Result: &deployerv1.HookResult{RequeueAfter: durationpb.New(-1)},
		}}),
	},
	"HookErrorWithoutReason":  {reason: "a user reads it", want: []Rule{RuleHookOutcomes}, service: answers(hookError("", "it is wrong"))},
	"HookErrorWithoutMessage": {reason: "a user reads it", want: []Rule{RuleHookOutcomes}, service: answers(hookError("Wrong", ""))},
	"HooksOnlyWithOperations": {
		reason:  "what serves no types is no deployer",
		want:    []Rule{RuleCapabilitiesClaimed},
		service: withInfo(hooksOnly),
		limits:  func(l *limits) { l.probe = 5 * time.Second },
	},
}

// renders answers each Render with these desired objects.
func renders(children ...*deployerv1.Child) func(*service) {
	return func(s *service) {
		s.renders = func() (*deployerv1.RenderResponse, error) { return rendered(children...), nil }
	}
}

func child(name, object string) *deployerv1.Child {
	return &deployerv1.Child{Name: name, Object: []byte(object)}
}

var ofRender = map[string]misbehaviour{
	"RenderFails": {
		reason: "what can be deployed has desired objects",
		want:   []Rule{RuleRenderChildren},
		service: func(s *service) {
			s.renders = func() (*deployerv1.RenderResponse, error) {
				return &deployerv1.RenderResponse{Outcome: &deployerv1.RenderResponse_Failed{Failed: failed("not today").GetFailed()}}, nil
			}
		},
	},
	"RenderBreaksOff": {
		reason: "what can be deployed has desired objects",
		want:   []Rule{RuleRenderChildren},
		service: func(s *service) {
			s.renders = func() (*deployerv1.RenderResponse, error) { return nil, errors.New("not today") }
		},
	},
	"ChildWithoutName":    {reason: "a hook has to say which one it changes", want: []Rule{RuleRenderChildren}, service: renders(child("", goodChild))},
	"ChildrenOfOneName":   {reason: "a hook has to say which one it changes", want: []Rule{RuleRenderChildren}, service: renders(child("a", goodChild), child("a", goodChild))},
	"ChildNoJSON":         {reason: "hooks read it", want: []Rule{RuleRenderChildren}, service: renders(child("a", "apiVersion: v1"))},
	"ChildIsList":         {reason: "a desired object is one", want: []Rule{RuleRenderChildren}, service: renders(child("a", "["+goodChild+"]"))},
	"ChildWithoutKind":    {reason: "nobody knows what it is", want: []Rule{RuleRenderChildren}, service: renders(child("a", `{"apiVersion":"v1"}`))},
	"ChildWithoutVersion": {reason: "nobody knows what it is", want: []Rule{RuleRenderChildren}, service: renders(child("a", `{"kind":"ConfigMap"}`))},
	"RendersOtherEachTime": {
		reason: "a hook would see changes where there are none",
		want:   []Rule{RuleRenderSame},
		service: func(s *service) {
			var asked atomic.Int32
			s.renders = func() (*deployerv1.RenderResponse, error) {
				return rendered(child("a", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","n":%d}`, asked.Add(1)))), nil
			}
		},
	},
	"DoesNotTakeChildren": {
		reason: "a hook that changes nothing must not stop the job",
		want:   []Rule{RuleRenderTakenBack},
		service: func(s *service) {
			s.deploys = func(c *conversation) error {
				if c.start.GetChildren() != nil {
					return status.Error(codes.InvalidArgument, "no children")
				}
				return c.deploy()
			}
		},
	},
	"TakesOtherChildren": {
		reason: "they come as they were rendered",
		want:   nil,
		service: func(s *service) {
			s.deploys = func(c *conversation) error {
				if children := c.start.GetChildren(); children != nil &&
					(len(children.GetChildren()) != 1 || !json.Valid(children.GetChildren()[0].GetObject()) || children.GetChildren()[0].GetName() != "a") {
					return status.Error(codes.InvalidArgument, "other children")
				}
				return c.deploy()
			}
		},
	},
}
