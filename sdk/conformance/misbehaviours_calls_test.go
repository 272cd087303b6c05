package conformance

import (
	"context"
	"errors"
	"sync"
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

// abortsAlone refuses Abort while another call is open.
func abortsAlone() []grpc.ServerOption {
	var mu sync.Mutex
	open := 0
	return around(func(method string, _ context.Context, handle func() error) error {
		if method == "Abort" {
			for range 100 { // the other call may arrive a moment later
				mu.Lock()
				busy := open > 0
				mu.Unlock()
				if busy {
					return status.Error(codes.FailedPrecondition, "busy")
				}
				time.Sleep(10 * time.Millisecond)
			}
			return handle()
		}
		if method != "Reconcile" {
			return handle()
		}
		mu.Lock()
		open++
		mu.Unlock()
		defer func() {
			mu.Lock()
			open--
			mu.Unlock()
		}()
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
			s.withoutStart = func(context.Context, *deployerv1.HostMessage) (*deployerv1.Result, error) { return success(""), nil }
		},
	},
	"SilentWithoutStart": {
		reason: "the host has to hear what it did wrong",
		want:   []Rule{RuleStartFirst},
		service: func(s *service) {
			s.withoutStart = func(context.Context, *deployerv1.HostMessage) (*deployerv1.Result, error) { return nil, nil }
		},
	},
	"WaitsForStart": {
		reason: "a start message that has not come first never comes",
		want:   []Rule{RuleStartFirst},
		service: func(s *service) {
			s.withoutStart = func(ctx context.Context, first *deployerv1.HostMessage) (*deployerv1.Result, error) {
				if first != nil && first.GetContent() == nil {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return nil, errors.New("it is not start")
			}
		},
		limits: func(l *limits) { l.probe = 5 * time.Second },
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
	"RefusesAnswer": {
		reason: "an answer may come after the deployer has given up on it",
		want:   []Rule{RuleUnknownIgnored},
		service: hears("unknown", func(m *deployerv1.HostMessage) error {
			if m.GetResolvedTarget() != nil {
				return refused("answers to questions for Targets")
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
	"ThirtyTwoMiB": {reason: "the protocol promises 64 MiB", want: []Rule{RuleLargeMessages}, options: []grpc.ServerOption{grpc.MaxRecvMsgSize(32 << 20)}, limits: large},
	"OneAtATime": {
		reason:  "one item would hold up all others",
		want:    []Rule{RuleConcurrentCalls},
		options: oneAtATime(),
		limits:  func(l *limits) { l.probe = 5 * time.Second },
	},
	"AbortsAlone": {reason: "what is to be aborted is under way", want: []Rule{RuleConcurrentCalls}, options: abortsAlone()},
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

const noKind = `{"apiVersion":"example.org/v1"}`

var ofWhatIsSaid = map[string]misbehaviour{
	"NoResult": {
		reason:  "a call that just ends leaves the host in the dark, and the job does not succeed",
		want:    []Rule{RuleOneResult, RuleReconcile},
		service: says(progress("work")),
	},
	"ResultWithoutOutcome": {
		reason:  "a result has to say which",
		want:    []Rule{RuleOneResult, RuleReconcile},
		service: says(result(&deployerv1.Result{})),
	},
	"TwoResults": {reason: "the first result counts; a second one contradicts or is lost", want: []Rule{RuleOneResult}, service: says(succeeded(""), succeeded(""))},
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
	"SavedStatusWithoutKind": {
		reason:  "the API server refuses an embedded object without kind",
		want:    []Rule{RuleProviderStatus},
		service: func(s *service) { s.deploys = func(c *conversation) error { return c.deployWith(noKind) } },
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
		service: says(waiting("", 0)),
		timeout: 3 * time.Second,
	},
	"NegativePoll": {
		reason:  "nobody can call in the past",
		want:    []Rule{RuleReconcile, RuleResult},
		service: says(waiting("x", -1)),
		timeout: 3 * time.Second,
	},
	"FailedWithoutError": {
		reason:  "a failure has a cause",
		want:    []Rule{RuleResult, RuleReconcile},
		service: says(result(&deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: &deployerv1.Failed{}}})),
	},
	"AsksForNoName":         {reason: "there is no such Target", want: []Rule{RuleSequence}, service: asks("")},
	"AsksForWhatIsNotThere": {reason: "a Target that is missing is the user's mistake", want: nil, service: asks("other")},
	"ConditionOfTheHost": {
		reason: "the host would overwrite it",
		want:   []Rule{RuleConditions},
		service: says(result(&deployerv1.Result{
			Outcome:    &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{}},
			Conditions: []*deployerv1.Condition{{Type: "Ready", Status: "True", Reason: "AsItWas"}},
		})),
	},
	"ExportsNoObject": {reason: "exports are keys and values", want: []Rule{RuleResult}, service: says(succeeded(`["a"]`))},
}

// deployAfterSave saves the same sequence number once more.
func (c *conversation) deployAfterSave() error {
	if len(c.item.Status.ProviderStatus) > 0 {
		return c.send(succeeded(""))
	}
	return c.deploy()
}

// deployWith saves a document that is none, and goes on if it was saved.
func (c *conversation) deployWith(document string) error {
	if len(c.item.Status.ProviderStatus) > 0 {
		return c.send(succeeded(""))
	}
	if err := c.send(saved(1, document)); err != nil {
		return err
	}
	select {
	case m := <-c.heard:
		if problem := m.GetAcknowledgement().GetError(); problem != "" {
			return c.send(result(failed(problem)))
		}
		return c.send(waiting("the next call", 0))
	case <-c.stream.Context().Done():
		return c.stream.Context().Err()
	}
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
	"NeedsNoConfig": {
		reason: "an item that says nothing is a mistake",
		want:   []Rule{RuleConfigStrict},
		service: func(s *service) {
			s.refuses = func(c *conversation) *deployerv1.Result {
				if len(c.item.Spec.Config) == 0 {
					return success("")
				}
				return refuse(c)
			}
		},
	},
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
	"RefusesWithoutField": {
		reason:  "the user has to find the mistake",
		want:    []Rule{RuleConfigStrict, RuleConfigStrict},
		service: refuseAs(func(e *deployerv1.Error) { e.Message = "something is wrong" }),
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
	"NotReentrant": {
		reason: "a host may call again at any time",
		want:   []Rule{RuleReconcile},
		service: func(s *service) {
			var done atomic.Bool
			s.deploys = func(c *conversation) error {
				if done.Load() {
					return c.send(result(failed("it is already there")))
				}
				done.Store(len(c.item.Status.ProviderStatus) > 0)
				return c.deploy()
			}
		},
	},
	"CannotDelete": {
		reason: "what cannot be deleted blocks its namespace",
		want:   []Rule{RuleDelete},
		service: func(s *service) {
			s.deletes = func(c *conversation) error { return c.send(result(failed("it is stuck"))) }
		},
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

// asks is a deployer that asks for a Target once it has deployed.
func asks(name string) func(*service) {
	return func(s *service) {
		s.deploys = func(c *conversation) error {
			if len(c.item.Status.ProviderStatus) == 0 {
				return c.deploy()
			}
			if err := c.send(&deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ResolveTarget{
				ResolveTarget: &deployerv1.ResolveTarget{Sequence: 2, Name: name},
			}}); err != nil {
				return err
			}
			select {
			case <-c.heard:
				return c.deploy()
			case <-c.stream.Context().Done():
				return c.stream.Context().Err()
			}
		}
	}
}
