package conformance

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/bounds"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/exposition"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/strange"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// misbehaviour is how a fake breaks some rules. It keeps all others.
type misbehaviour struct {
	want []Rule
	// answers changes the answer to a call of one question.
	answers func(out any)
	// says replaces how a message of an operation is sent.
	says    saying
	options []grpc.ServerOption
	// watches replaces Watch.
	watches func(send func(*deployerv1.WatchResponse) error) error
	// program makes it a process of its own; nil for a plugin that is attached to.
	program *program
	// limits are shorter ones, for what is broken by waiting.
	limits func(*bounds.Limits)
	// timeout of the case, if it is not the usual one.
	timeout time.Duration
	// noCase checks it without a deploy item.
	noCase bool
}

type (
	saying = func(c *conversation, m *message) error
	info   = deployerv1.GetInfoResponse
	result = deployerv1.Result
)

// answer changes the answers of one type.
func answer[M any](change func(*M)) func(any) {
	return func(out any) {
		if m, ok := out.(*M); ok {
			change(m)
		}
	}
}

// results changes the results of operations.
func results(change func(c *conversation, r *result)) saying {
	return func(c *conversation, m *message) error {
		if m.GetResult() != nil {
			change(c, m.GetResult())
		}
		return c.Send(m)
	}
}

// deployed replaces the result of a call that has deployed an item.
func deployed(say saying) saying {
	return func(c *conversation, m *message) error {
		if len(m.GetResult().GetSucceeded().GetExports()) > 0 {
			return say(c, m)
		}
		return c.Send(m)
	}
}

// instead sends another message for a failure with this text.
func instead(text string, other func() *message) saying {
	return func(c *conversation, m *message) error {
		if strings.Contains(m.GetResult().GetFailed().String(), text) {
			m = other()
		}
		return c.Send(m)
	}
}

// refuses breaks off a call in which the host says something.
func refuses(item Rule, wrong func(*deployerv1.HostMessage) bool) saying {
	return func(c *conversation, m *message) error {
		for strings.Contains(c.item, string(item)) { // there the host says it
			if heard, err := c.Recv(); err != nil || wrong(heard) {
				return errors.Join(err, errors.New("the fake does not take this"))
			}
		}
		return c.Send(m)
	}
}

func misbehaviours() map[string]misbehaviour {
	var serial sync.Mutex
	var asked, cancelled, deletions atomic.Int32
	impatient := func(l *bounds.Limits) { l.Answer, l.Probe, l.End = time.Second, 5*time.Second, 2*time.Second }
	return map[string]misbehaviour{
		// The process.
		"RubbishFirst": {want: []Rule{RuleHandshake}, program: &program{before: func() {
			_, _ = fmt.Fprintln(os.Stdout, "hello") // the host reads the first line and no other
		}}},
		"RubbishWithoutEnd": {want: []Rule{RuleHandshake}, program: &program{before: func() {
			_, _ = fmt.Fprint(os.Stdout, strings.Repeat("x", 1<<20)) // nobody reads all of it
		}}},
		"EndsAtOnce": {want: []Rule{RuleHandshake}, program: &program{before: func() { os.Exit(0) }}},
		// Other users of the machine can connect to a port.
		"TCP":           {want: []Rule{RuleHandshake}, program: &program{network: "tcp"}},
		"NoCertificate": {want: []Rule{RuleMutualTLS}, program: &program{noCertificate: true}},
		"TakesAnybody": {want: []Rule{RuleMutualTLS}, program: &program{
			clients: func(c *tls.Config) { c.ClientAuth = tls.NoClientCert },
		}},
		// A certificate is easily made.
		"TakesAnyCertificate": {want: []Rule{RuleMutualTLS}, program: &program{
			clients: func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert },
		}},
		"EndsWithSignal": {
			want: []Rule{RuleSignalsIgnored}, program: &program{takesSignals: true}, noCase: true,
			limits: func(l *bounds.Limits) { l.Pause = 5 * time.Second },
		},
		"IgnoresShutdown": {
			want: []Rule{RuleEndsWhenTold}, program: &program{ignoresShutdown: true}, noCase: true,
			limits: func(l *bounds.Limits) { l.End = 2 * time.Second },
		},
		"OutlivesItsHost": {
			want: []Rule{RuleEndsWithHost}, program: &program{ignoresLifeline: true}, noCase: true,
			limits: func(l *bounds.Limits) { l.End = 2 * time.Second },
		},
		// One bad item must not end the others.
		"DiesOfAnItem": {
			want: []Rule{RuleStartFirst}, program: &program{},
			says: func(c *conversation, m *message) error {
				if c.start == nil && c.Context().Err() == nil {
					os.Exit(1)
				}
				return c.Send(m)
			},
		},

		// Questions.
		"Sick": {want: []Rule{RuleHealth}, answers: answer(func(h *grpc_health_v1.HealthCheckResponse) {
			h.Status = grpc_health_v1.HealthCheckResponse_NOT_SERVING
		})},
		"AnswersLate": {
			want: []Rule{RuleInfo}, limits: impatient,
			answers: answer(func(*info) { time.Sleep(3 * time.Second) }),
		},
		// Other problems like this one are tested with the function of package hostside that finds them.
		"NameNoLabel": {want: []Rule{RuleInfo}, answers: answer(func(i *info) { i.Name = "A.B" })},
		"DoubleType": {want: []Rule{RuleInfo}, answers: answer(func(i *info) {
			i.DeployItemTypes = []string{fakeType, fakeType}
		})},
		"DoubleHookType": {want: []Rule{RuleInfo}, answers: answer(func(i *info) {
			i.Capabilities.HookTypes = []string{"Start", "End", "End"}
		})},
		// A plugin that was restarted has to be the same.
		"OtherEachTime": {want: []Rule{RuleInfo}, answers: answer(func(i *info) { i.Version = fmt.Sprint(asked.Add(1)) })},
		"SchemaNoJSON": {want: []Rule{RuleSchemas}, answers: answer(func(i *info) {
			i.ConfigurationSchema = []byte("free text")
		})},
		"SchemaOfNoType": {want: []Rule{RuleSchemas}, answers: answer(func(i *info) {
			i.ProviderConfigurationSchemas[fakeType] = []byte(`{"type":"objekt"}`)
		})},
		// The host has no other documents.
		"SchemaElsewhere": {want: []Rule{RuleSchemas}, answers: answer(func(i *info) {
			i.ProviderConfigurationSchemas[fakeType] = []byte(`{"$ref":"file:///etc/passwd"}`)
		})},
		"SchemaOfAnother": {want: []Rule{RuleSchemas}, answers: answer(func(i *info) {
			i.ProviderConfigurationSchemas[fakeType] = []byte(`{"type":"object","required":["size"]}`)
		})},
		"ValidatesAnything": {want: []Rule{RuleValidate}, answers: answer(func(r *deployerv1.ValidateResponse) {
			r.Problems = nil
		})},
		"ValidatesNothing": {want: []Rule{RuleValidate}, answers: answer(func(r *deployerv1.ValidateResponse) {
			r.Problems = append(r.Problems, &deployerv1.Problem{Field: "size", Message: strange.Field})
		})},
		"ValidatesWithoutText": {want: []Rule{RuleResult}, answers: answer(func(r *deployerv1.ValidateResponse) {
			for _, p := range r.GetProblems() {
				p.Message = ""
			}
		})},
		"WatchEnds": {want: []Rule{RuleWatch}, watches: func(func(*deployerv1.WatchResponse) error) error { return nil }},
		"WakesNoItem": {want: []Rule{RuleWatch}, watches: func(send func(*deployerv1.WatchResponse) error) error {
			return errors.Join(send(&deployerv1.WatchResponse{Name: "item"}), errors.New("enough"))
		}},
		"ConfiguredWithAnything": {want: []Rule{RuleConfigure}, answers: answer(func(r *deployerv1.ConfigureResponse) {
			r.Problems = nil
		})},
		"NoOutcome": {want: []Rule{RuleHooks}, answers: answer(func(r *deployerv1.RunHooksResponse) { r.Outcomes = nil })},
		"HookErrorWithoutMessage": {want: []Rule{RuleHooks}, answers: answer(func(r *deployerv1.RunHooksResponse) {
			r.Outcomes[0].Outcome = &deployerv1.HookOutcome_Error{Error: &deployerv1.Error{Reason: "Wrong"}}
		})},
		// The host would not ask.
		"OpinionWithoutSchedule": {want: []Rule{RuleHooks}, answers: answer(func(r *deployerv1.RunHooksResponse) {
			r.Outcomes[0].Outcome = &deployerv1.HookOutcome_Result{Result: &deployerv1.HookResult{}}
		})},
		// Nobody could report whether its item is gone.
		"HoldingWithoutUID": {want: []Rule{RuleHoldings}, answers: answer(func(r *deployerv1.HoldingsResponse) {
			r.GetHeld().GetHoldings()[0].Uid = ""
		})},
		"HoldingsSayNothing": {want: []Rule{RuleHoldings}, answers: answer(func(r *deployerv1.HoldingsResponse) {
			r.Outcome = nil
		})},
		"MetricsInJSON": {want: []Rule{RuleMetrics}, answers: answer(func(r *deployerv1.MetricsResponse) {
			r.Families = []byte(`{"guests":3}`)
		})},
		"MetricsThatPanicTheParser": {want: []Rule{RuleMetrics}, answers: answer(func(r *deployerv1.MetricsResponse) {
			r.Families = []byte("#TYPE A \n{}0")
		})},
		"MetricOfEachGuest": {want: []Rule{RuleMetrics}, answers: answer(func(r *deployerv1.MetricsResponse) {
			for i := range exposition.MaxSeries + 1 {
				r.Families = fmt.Appendf(r.Families, "guests{name=\"%d\"} 1\n", i)
			}
		})},
		// A hook has to say which one it changes.
		"ChildrenOfOneName": {want: []Rule{RuleRender}, answers: answer(func(r *deployerv1.RenderResponse) {
			children := r.GetChildren()
			children.Children = append(children.Children, children.Children[0])
		})},
		"RendersOtherEachTime": {want: []Rule{RuleRender}, answers: answer(func(r *deployerv1.RenderResponse) {
			r.GetChildren().GetChildren()[0].Name = fmt.Sprint(asked.Add(1))
		})},
		"UnknownAction": {want: []Rule{RuleDiff}, answers: answer(func(r *deployerv1.DiffResponse) {
			for _, change := range r.GetChanges().GetChanges() {
				change.Action = "Create"
			}
		})},

		// Operations.
		"WorksWithoutItem": {want: []Rule{RuleStartFirst}, says: instead("no deploy item", succeeded)},
		// The whole answer is lost, with the error in it.
		"QuotesBytes": {want: []Rule{RuleTexts}, says: instead("no deploy item", func() *message {
			return failed("there is no deploy item in Gr\xfcn")
		})},
		// A later host has more to say.
		"RefusesUnknownMessage": {want: []Rule{RuleUnknownIgnored}, says: refuses(RuleUnknownIgnored,
			func(m *deployerv1.HostMessage) bool { return m.GetContent() == nil })},
		"BreaksOffWhenStopped": {want: []Rule{RuleStop}, says: refuses(RuleStop,
			func(m *deployerv1.HostMessage) bool { return m.GetStop() != nil })},
		"ThirtyTwoMiB": {
			want: []Rule{RuleLargeMessages}, options: []grpc.ServerOption{grpc.MaxRecvMsgSize(32 << 20)},
			limits: func(l *bounds.Limits) { l.Large = bounds.Usual().Large },
		},
		"OneAtATime": {
			want: []Rule{RuleConcurrentCalls}, limits: func(l *bounds.Limits) { l.Probe = 5 * time.Second },
			options: []grpc.ServerOption{grpc.ChainStreamInterceptor(
				func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
					if !info.IsClientStream { // Watch is open beside all calls
						return handle(srv, stream)
					}
					serial.Lock()
					defer serial.Unlock()
					return handle(srv, stream)
				},
			)},
		},
		"LeaksCalls": {
			want: []Rule{RuleCallEnds}, noCase: true,
			says: func(c *conversation, m *message) error {
				if c.Context().Err() != nil {
					cancelled.Add(1)
				}
				if cancelled.Load() > 50 {
					return errors.New("too many calls")
				}
				return c.Send(m)
			},
		},
		"NoResult": {
			want: []Rule{RuleOneResult, RuleReconcile},
			says: deployed(func(*conversation, *message) error { return nil }),
		},
		"TwoResults": {want: []Rule{RuleOneResult}, says: deployed(func(c *conversation, m *message) error {
			return errors.Join(c.Send(m), c.Send(m))
		})},
		// The host takes a plugin that says nothing for one that hangs.
		"Silence": {
			want: []Rule{RuleHeartbeat}, limits: func(l *bounds.Limits) { l.Silence = 200 * time.Millisecond },
			says: deployed(func(c *conversation, m *message) error {
				time.Sleep(300 * time.Millisecond)
				return c.Send(m)
			}),
		},
		// An acknowledgement could be taken for that of another status.
		"SequenceDoesNotRise": {want: []Rule{RuleSequence}, says: func(c *conversation, m *message) error {
			if m.GetProviderStatus() != nil {
				m.GetProviderStatus().Sequence = 0
			}
			return c.Send(m)
		}},
		"FinalStatusWithoutAPIVersion": {want: []Rule{RuleProviderStatus}, says: results(func(_ *conversation, r *result) {
			if r.GetSucceeded() != nil {
				r.ProviderStatus = []byte(`{"kind":"Status"}`)
			}
		})},
		"WaitsForNothing": {want: []Rule{RuleResult}, says: results(func(_ *conversation, r *result) {
			if r.GetInProgress() != nil {
				r.GetInProgress().WaitingFor = ""
			}
		})},
		"FailsWithoutError": {want: []Rule{RuleConfigStrict, RuleResult}, says: results(func(_ *conversation, r *result) {
			if r.GetFailed() != nil {
				r.GetFailed().Errors = nil
			}
		})},
		"Panics": {want: []Rule{RulePanics}, says: results(func(c *conversation, r *result) {
			for _, e := range r.GetFailed().GetErrors() {
				if c.start == nil {
					e.Reason = "PluginPanic"
				}
			}
		})},
		"ReasonWithASpace": {want: []Rule{RuleResult}, says: results(func(_ *conversation, r *result) {
			for _, e := range r.GetFailed().GetErrors() {
				e.Reason = "it is wrong"
			}
		})},
		"CodeThatDoesNotExist": {want: []Rule{RuleResult}, says: results(func(_ *conversation, r *result) {
			for _, e := range r.GetFailed().GetErrors() {
				e.Codes = append(e.Codes, "ERR_QUOTA")
			}
		})},
		"HealthIsSaved": {want: []Rule{RuleCheckHealth}, says: results(func(c *conversation, r *result) {
			if c.method == "CheckHealth" {
				r.ProviderStatus = []byte(savedStatus)
				r.ProviderStatus = append(r.ProviderStatus, ' ')
			}
		})},
		"ForcesForEver": {
			want: []Rule{RuleForce}, timeout: 2 * time.Second,
			says: func(c *conversation, m *message) error {
				if c.start.GetForced() {
					m = waiting("the end of the force", "")
				}
				return c.Send(m)
			},
		},
		"AbortsForEver": {
			want: []Rule{RuleAbort}, timeout: 2 * time.Second,
			says: func(c *conversation, m *message) error {
				if c.method == "Abort" {
					m = waiting("the end of the abort", "")
				}
				return c.Send(m)
			},
		},
		"ConditionOfTheHost": {want: []Rule{RuleConditions}, says: results(func(_ *conversation, r *result) {
			r.Conditions = []*deployerv1.Condition{{Type: "Ready", Status: "True", Reason: "AsItWas"}}
		})},
		// Rule (SECURITY.md#secrets, TestMisbehaviourBreaksItsRules/RepeatsCredentials): `pergola plugins verify` finds
		// a plugin with repeated credentials.
		"RepeatsCredentials": {want: []Rule{RuleCredentials}, says: results(func(c *conversation, r *result) {
			for _, repository := range c.start.GetCredentials().GetChartRepositories() {
				for _, e := range r.GetFailed().GetErrors() {
					e.Message += " after a login with " + repository.GetAuthHeader()
				}
			}
		})},
		// Rule (SECURITY.md#secrets, TestMisbehaviourBreaksItsRules/RepeatsOCMConfig): `pergola plugins verify` finds
		// repeated credentials of the ConfigMap of a Context.
		"RepeatsOCMConfig": {want: []Rule{RuleCredentials}, says: results(func(c *conversation, r *result) {
			for _, e := range r.GetFailed().GetErrors() {
				e.Message += string(c.start.GetOcmConfig().GetContent())
			}
		})},
		"FailsWithAccess": {want: []Rule{RuleCredentials}, says: func(c *conversation, m *message) error {
			if c.start.GetHostCluster() != nil {
				return errors.New("not with access")
			}
			return c.Send(m)
		}},
		// A hook that changes nothing must not stop the job.
		"DoesNotTakeChildren": {want: []Rule{RuleRender}, says: func(c *conversation, m *message) error {
			if c.start.GetChildren() != nil {
				return errors.New("no children")
			}
			return c.Send(m)
		}},

		// Jobs.
		"TakesAnyField": {want: []Rule{RuleConfigStrict}, says: instead("unknown field", succeeded)},
		// Without the code the host tries again until the time is up.
		"RefusesWithoutCode": {want: []Rule{RuleConfigStrict}, says: results(func(_ *conversation, r *result) {
			for _, e := range r.GetFailed().GetErrors() {
				e.Codes = nil
			}
		})},
		// What it has done would be forgotten in a crash.
		"DoesNotCareForSaves": {want: []Rule{RuleSaveRefused}, says: instead("was not saved", succeeded)},
		"NeverSucceeds": {
			want: []Rule{RuleReconcile},
			says: deployed(func(c *conversation, _ *message) error { return c.Send(failed("the weather")) }),
		},
		// The host may die between the deletion and its note of it.
		"CannotDeleteTwice": {want: []Rule{RuleDelete}, says: func(c *conversation, m *message) error {
			if c.method == "Delete" && m.GetResult().GetSucceeded() != nil && deletions.Add(1) > 1 {
				m = failed("not found")
			}
			return c.Send(m)
		}},

		"HooksAlone": {answers: answer(func(i *info) {
			i.DeployItemTypes, i.HookedDeployItemTypes = nil, []string{fakeType}
			i.ConfigurationSchema, i.ProviderConfigurationSchemas = nil, nil
			i.Capabilities = &deployerv1.Capabilities{HookTypes: []string{string(hook.End), string(hook.Start)}}
		})},
		// It stops itself in the middle and leaves a child behind, which holds its output.
		"Hangs": {
			program: &program{before: startChild}, limits: impatient,
			answers: answer(func(*deployerv1.RunHooksResponse) { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }),
		},
	}
}
