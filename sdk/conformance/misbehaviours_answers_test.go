package conformance

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// hooksOnly makes the service one that brings nothing but hooks, and has no other methods.
func hooksOnly(i *deployerv1.GetInfoResponse) {
	i.DeployItemTypes, i.HookedDeployItemTypes = nil, []string{rawType}
	i.ConfigurationSchema, i.ProviderConfigurationSchemas = nil, nil
	i.Capabilities = &deployerv1.Capabilities{HookTypes: []string{"End", "Start"}}
}

// hooks answers each RunHooks with these outcomes.
func hooks(outcomes ...*deployerv1.HookOutcome) func(*service) {
	return func(s *service) { s.outcomes = func() []*deployerv1.HookOutcome { return outcomes } }
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

// holds answers each Holdings so.
func holds(answer *deployerv1.HoldingsResponse) func(*service) {
	return func(s *service) { s.holds = answer }
}

// refusesStart is a plugin whose calls break off over some start messages.
func refusesStart(wrong func(*deployerv1.Start) bool) func(*service) {
	return func(s *service) {
		s.hears = func(m *deployerv1.HostMessage) error {
			if m.GetStart() != nil && wrong(m.GetStart()) {
				return refused("this")
			}
			return nil
		}
	}
}

var ofAnswers = map[string]misbehaviour{
	"NoOutcome": {reason: "one function has one outcome", want: []Rule{RuleHooks}, service: hooks()},
	"HookErrorWithoutMessage": {
		reason:  "a user reads it",
		want:    []Rule{RuleHooks},
		service: hooks(&deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_Error{Error: &deployerv1.Error{Reason: "Wrong"}}}),
	},

	"HoldingWithoutUID": {
		reason:  "nobody could tell whether its item is gone",
		want:    []Rule{RuleHoldings},
		service: holds(holding(&deployerv1.Holding{Namespace: "default", Name: "a"})),
	},
	"HoldingsSayNothing": {
		reason:  "nothing is not the same as no holdings",
		want:    []Rule{RuleHoldings},
		service: holds(&deployerv1.HoldingsResponse{}),
	},

	"RepeatsCredentials": {
		reason: "progress is shown to everybody",
		want:   []Rule{RuleCredentials},
		service: func(s *service) {
			s.deploys = func(c *conversation) error {
				if repositories := c.start.GetCredentials().GetChartRepositories(); len(repositories) > 0 {
					if err := c.send(progress("logging in with " + repositories[0].GetAuthHeader())); err != nil {
						return err
					}
				}
				return c.deploy()
			}
		},
	},
	"FailsWithAccess": {
		reason:  "what it is asked for is the same",
		want:    []Rule{RuleCredentials},
		service: refusesStart(func(start *deployerv1.Start) bool { return start.GetHostCluster() != nil }),
	},

	"ChildrenOfOneName": {
		reason:  "a hook has to say which one it changes",
		want:    []Rule{RuleRender},
		service: renders(child("a", goodChild), child("a", goodChild)),
	},
	"RendersOtherEachTime": {
		reason: "a hook would see changes where there are none",
		want:   []Rule{RuleRender},
		service: func(s *service) {
			var asked atomic.Int32
			s.renders = func() (*deployerv1.RenderResponse, error) {
				return rendered(child("a", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","n":%d}`, asked.Add(1)))), nil
			}
		},
	},
	"DoesNotTakeChildren": {
		reason: "a hook that changes nothing must not stop the job",
		want:   []Rule{RuleRender},
		service: func(s *service) {
			s.deploys = func(c *conversation) error {
				if c.start.GetChildren() != nil {
					return status.Error(codes.InvalidArgument, "no children")
				}
				return c.deploy()
			}
		},
	},

	"UnknownAction": {
		reason: "the host cannot show it",
		want:   []Rule{RuleDiff},
		service: func(s *service) {
			s.diffs = func(*deployerv1.Start) *deployerv1.DiffResponse {
				return differing(&deployerv1.Change{Object: "a", Action: "Create"})
			}
		},
	},
}
