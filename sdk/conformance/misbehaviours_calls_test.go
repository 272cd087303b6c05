package conformance

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// oneAtATime makes the calls of Reconcile wait for each other.
func oneAtATime() []grpc.ServerOption {
	turn := make(chan struct{}, 1)
	return around(func(method string, ctx context.Context, handle func() error) error {
		if method != "Reconcile" {
			return handle()
		}
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-turn }()
		return handle()
	})
}

func hears(in string, f func(*deployerv1.HostMessage) error) func(*service) {
	return func(s *service) { s.hearsIn, s.hears = in, f }
}

// large sends messages as large as usual.
func large(l *limits) {
	l.large = usualLimits().large
}

var ofTheCalls = map[string]misbehaviour{
	"WorksWithoutStart": {
		reason: "there is nothing to work on",
		want:   []Rule{RuleStartFirst},
		service: func(s *service) {
			s.withoutStart = func() (*deployerv1.Result, error) { return success(""), nil }
		},
	},
	"TakesAnyItem": {
		reason:  "what cannot be read cannot be deployed",
		want:    []Rule{RuleStartFirst},
		service: func(s *service) { s.invalidItem = func() (*deployerv1.Result, error) { return success(""), nil } },
	},
	"RefusesUnknownMessage": {
		reason: "a later host has more to say",
		want:   []Rule{RuleUnknownIgnored},
		service: hears("unknown", func(m *deployerv1.HostMessage) error {
			if m.GetContent() == nil {
				return refused("unknown messages")
			}
			return nil
		}),
	},
	"BreaksOffWhenStopped": {
		reason: "a call that is stopped in order says how far it got",
		want:   []Rule{RuleStop},
		service: hears("stop", func(m *deployerv1.HostMessage) error {
			if m.GetStop() != nil {
				return refused("a stop")
			}
			return nil
		}),
	},
	"ThirtyTwoMiB": {
		reason:  "the protocol promises 64 MiB",
		want:    []Rule{RuleLargeMessages},
		options: []grpc.ServerOption{grpc.MaxRecvMsgSize(32 << 20)},
		limits:  large,
	},
	"OneAtATime": {
		reason:  "one item would hold up all others",
		want:    []Rule{RuleConcurrentCalls},
		options: oneAtATime(),
		limits:  func(l *limits) { l.probe = 5 * time.Second },
	},
	"LeaksCalls": {
		reason: "a call that does not end holds what it has",
		want:   []Rule{RuleCallEnds},
		service: func(s *service) {
			s.hears = func(*deployerv1.HostMessage) error {
				if s.cancelled.Load() > 50 {
					return status.Error(codes.ResourceExhausted, "too many calls")
				}
				return nil
			}
		},
		noCase: true,
	},
}

var ofWhatIsSaid = map[string]misbehaviour{
	"NoResult": {
		reason:  "a call that just ends leaves the host in the dark, and the job does not succeed",
		want:    []Rule{RuleOneResult, RuleReconcile},
		service: says(progress("work")),
	},
	"TwoResults": {
		reason:  "the first result counts; a second one contradicts or is lost",
		want:    []Rule{RuleOneResult},
		service: says(succeeded(""), succeeded("")),
	},
	"Silence": {
		reason: "the host takes a plugin that says nothing for one that hangs",
		want:   []Rule{RuleHeartbeat},
		service: func(s *service) {
			s.deploys = func(c *conversation) error {
				time.Sleep(300 * time.Millisecond)
				return c.deploy()
			}
		},
		limits: func(l *limits) { l.silence = 200 * time.Millisecond },
	},
	"SequenceDoesNotRise": {
		reason: "an acknowledgement could be taken for that of another status",
		want:   []Rule{RuleSequence},
		service: func(s *service) {
			s.deploys = func(c *conversation) error {
				if _, err := c.save(); err != nil {
					return err
				}
				return c.deployAfterSave()
			}
		},
	},
	"FinalStatusWithoutAPIVersion": {
		reason: "the status of the result is saved like any other",
		want:   []Rule{RuleProviderStatus},
		service: says(result(&deployerv1.Result{
			Outcome:        &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{}},
			ProviderStatus: []byte(`{"kind":"Status"}`),
		})),
	},
	"WaitsForNothing": {
		reason:  "the user wants to know what is being waited for; it waits for ever, too",
		want:    []Rule{RuleReconcile, RuleResult},
		service: says(waiting("")),
		timeout: 3 * time.Second,
	},
	"FailedWithoutError": {
		reason:  "a failure has a cause",
		want:    []Rule{RuleResult, RuleReconcile},
		service: says(result(&deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: &deployerv1.Failed{}}})),
	},
	"ConditionOfTheHost": {
		reason: "the host would overwrite it",
		want:   []Rule{RuleConditions},
		service: says(result(&deployerv1.Result{
			Outcome:    &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{}},
			Conditions: []*deployerv1.Condition{{Type: "Ready", Status: "True", Reason: "AsItWas"}},
		})),
	},
}

// deployAfterSave saves the same sequence number once more.
func (c *conversation) deployAfterSave() error {
	if len(c.item.Status.ProviderStatus) > 0 {
		return c.send(succeeded(""))
	}
	return c.deploy()
}

// refuseAs refuses what is wrong, but not as it should.
func refuseAs(change func(*deployerv1.Error)) func(*service) {
	return func(s *service) {
		s.refuses = func(c *conversation) *deployerv1.Result {
			r := refuse(c)
			if r != nil {
				change(r.GetFailed().GetErrors()[0])
			}
			return r
		}
	}
}

var ofTheDeployer = map[string]misbehaviour{
	"TakesAnyField": {
		reason: "a misspelt field must not pass unnoticed",
		want:   []Rule{RuleConfigStrict},
		service: func(s *service) {
			s.refuses = func(c *conversation) *deployerv1.Result {
				if len(c.item.Spec.Config) == 0 {
					return refuse(c)
				}
				return nil
			}
		},
	},
	"RefusesWithoutCode": {
		reason:  "without the code the host tries again until the time is up",
		want:    []Rule{RuleConfigStrict, RuleConfigStrict},
		service: refuseAs(func(e *deployerv1.Error) { e.Codes = nil }),
	},
	"DoesNotCareForSaves": {
		reason: "what it has done would be forgotten in a crash",
		want:   []Rule{RuleSaveRefused},
		service: func(s *service) {
			s.deploys = func(c *conversation) error {
				if _, err := c.save(); err != nil {
					return err
				}
				return c.send(succeeded(""))
			}
		},
	},
	"NeverSucceeds": {
		reason:  "a valid item has to come into the world",
		want:    []Rule{RuleReconcile},
		service: says(result(failed("the weather is bad"))),
	},
	"CannotDeleteTwice": {
		reason: "the host may die between the deletion and its note of it",
		want:   []Rule{RuleDelete},
		service: func(s *service) {
			var done atomic.Bool
			s.deletes = func(c *conversation) error {
				if done.Swap(true) {
					return c.send(result(failed("not found")))
				}
				return c.send(succeeded(""))
			}
		},
	},
}
