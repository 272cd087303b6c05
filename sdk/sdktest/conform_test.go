package sdktest

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
)

func TestConformAcceptsConformingDeployers(t *testing.T) {
	t.Parallel()
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		Conform(t, New(t, newGreeter(), greeterOptions()...), Case{Name: "greets", Call: greeterCall()})
	})
	t.Run("binary", func(t *testing.T) {
		t.Parallel()
		Conform(t, Start(t, testBinary(t), helperEnv+"=plugin"), Case{Name: "greets", Call: greeterCall()})
	})
	t.Run("without the sdk", func(t *testing.T) {
		t.Parallel()
		Conform(t, dialRaw(t, &rawServer{}), Case{Name: "greets", Call: greeterCall()})
	})
}

func TestConformReportsBrokenRulesOfTheWire(t *testing.T) {
	t.Parallel()
	say := func(messages ...*deployerv1.PluginMessage) *rawServer {
		return &rawServer{messages: func() []*deployerv1.PluginMessage { return messages }}
	}
	inProgress := func(p *deployerv1.InProgress) *deployerv1.PluginMessage {
		return result(&deployerv1.Result{Outcome: &deployerv1.Result_InProgress{InProgress: p}})
	}
	const good = `{"apiVersion":"example.org/v1","kind":"Status"}`
	tests := map[string]struct {
		reason string
		server *rawServer
		want   []Rule
	}{
		"NoName": {
			reason: "the name prefixes the plugin's locks",
			server: &rawServer{info: func(i *deployerv1.GetInfoResponse) { i.Name = "" }},
			want:   []Rule{RuleInfoComplete},
		},
		"NameNoLabel": {
			reason: "a name with capitals or dots is no DNS label",
			server: &rawServer{info: func(i *deployerv1.GetInfoResponse) { i.Name = "My.Deployer" }},
			want:   []Rule{RuleInfoComplete},
		},
		"NoVersion": {
			reason: "the version is written to the status of items",
			server: &rawServer{info: func(i *deployerv1.GetInfoResponse) { i.Version = "" }},
			want:   []Rule{RuleInfoComplete},
		},
		"NoTypes": {
			reason: "a plugin without types is never called",
			server: &rawServer{info: func(i *deployerv1.GetInfoResponse) { i.DeployItemTypes = nil }},
			want:   []Rule{RuleInfoComplete},
		},
		"EmptyAndDoubleType": {
			reason: "each type has a name of its own",
			server: &rawServer{info: func(i *deployerv1.GetInfoResponse) { i.DeployItemTypes = []string{"", "a", "a"} }},
			want:   []Rule{RuleInfoComplete},
		},
		"NoResult": {
			reason: "a call that just ends leaves the host in the dark, and the job does not succeed",
			server: say(progress("work")),
			want:   []Rule{RuleOneResult, RuleReconcileSucceeds},
		},
		"ResultWithoutOutcome": {
			reason: "a result has to say which",
			server: say(result(&deployerv1.Result{})),
			want:   []Rule{RuleOneResult, RuleReconcileSucceeds},
		},
		"TwoResults": {
			reason: "the first result counts; a second one contradicts or is lost",
			server: say(succeeded(""), succeeded("")),
			want:   []Rule{RuleOneResult},
		},
		"ProgressAfterResult": {
			reason: "nothing is heard after the result",
			server: say(succeeded(""), progress("late")),
			want:   []Rule{RuleOneResult},
		},
		"SequenceDoesNotRise": {
			reason: "an acknowledgement could be taken for that of another status",
			server: say(saved(1, good), saved(1, good), succeeded("")),
			want:   []Rule{RuleStatusSequence},
		},
		"SavedStatusWithoutKind": {
			reason: "the API server refuses an embedded object without kind",
			server: say(saved(1, `{"apiVersion":"example.org/v1"}`), succeeded("")),
			want:   []Rule{RuleStatusKind},
		},
		"SavedStatusNoJSON": {
			reason: "a provider status is a JSON object, or else the item cannot hold it for the next call",
			server: say(saved(1, `nonsense`), succeeded("")),
			want:   []Rule{RuleReconcileSucceeds, RuleStatusKind},
		},
		"FinalStatusWithoutAPIVersion": {
			reason: "the status of the result is saved like any other",
			server: say(result(&deployerv1.Result{
				Outcome:        &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{}},
				ProviderStatus: []byte(`{"kind":"Status"}`),
			})),
			want: []Rule{RuleStatusKind},
		},
		"WaitsForNothing": {
			reason: "the user wants to know what is being waited for; it waits for ever, too",
			server: say(inProgress(&deployerv1.InProgress{})),
			want:   []Rule{RuleReconcileSucceeds, RuleWaitingFor},
		},
		"NegativePoll": {
			reason: "nobody can call in the past",
			server: say(inProgress(&deployerv1.InProgress{WaitingFor: "x", PollAfter: durationpb.New(-time.Second)})),
			want:   []Rule{RuleReconcileSucceeds, RuleWaitingFor},
		},
		"FailedWithoutError": {
			reason: "a failure has a cause",
			server: say(result(&deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: &deployerv1.Failed{}}})),
			want:   []Rule{RuleFailedSaysWhy, RuleReconcileSucceeds},
		},
		"FailedWithoutMessage": {
			reason: "an empty message helps nobody",
			server: say(failed("")),
			want:   []Rule{RuleFailedSaysWhy, RuleReconcileSucceeds},
		},
		"ExportsNoObject": {
			reason: "exports are keys and values",
			server: say(succeeded(`["a"]`)),
			want:   []Rule{RuleExportsObject},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := record(t, func(t testing.TB) {
				Conform(t, dialRaw(t, tc.server), Case{Name: name, Call: greeterCall(), Timeout: 300 * time.Millisecond})
			})
			if diff := cmp.Diff(tc.want, r.rules()); diff != "" {
				t.Errorf("%s: broken rules (-want +got):\n%s\nreported:\n%s", tc.reason, diff, strings.Join(r.errors, "\n"))
			}
		})
	}
}

func TestConformReportsBrokenRulesOfDeployers(t *testing.T) {
	t.Parallel()
	done := func(context.Context, *sdk.Request) (*sdk.Response, error) { return nil, nil }
	tests := map[string]struct {
		reason   string
		deployer *variant
		want     []Rule
	}{
		"IgnoresConfig": {
			reason:   "a mistake in the configuration must not pass unnoticed",
			deployer: &variant{reconcile: done},
			want:     []Rule{RuleConfigRequired, RuleConfigStrict},
		},
		"RefusesWithoutCode": {
			reason: "without the code the host tries again until the time is up",
			deployer: &variant{reconcile: func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
				if err := req.DecodeConfig(&greeterConfig{}); err != nil {
					return nil, errors.New(err.Error())
				}
				return nil, nil
			}},
			want: []Rule{RuleConfigRequired, RuleConfigStrict},
		},
		"RefusesWithoutField": {
			reason: "the user has to find the mistake",
			deployer: &variant{reconcile: func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
				if err := req.DecodeConfig(&greeterConfig{}); err != nil {
					return nil, sdk.ConfigurationError("Wrong", "something is wrong")
				}
				return nil, nil
			}},
			want: []Rule{RuleConfigRequired, RuleConfigStrict},
		},
		"NotReentrant": {
			reason: "a host may call again at any time",
			deployer: &variant{reconcile: func() func(context.Context, *sdk.Request) (*sdk.Response, error) {
				succeeded := false
				g := newGreeter()
				return func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
					if succeeded {
						return nil, errors.New("already there")
					}
					res, err := g.Reconcile(ctx, req)
					succeeded = err == nil && res.InProgress == nil
					return res, err
				}
			}()},
			want: []Rule{RuleReconcileAgain},
		},
		"CannotDelete": {
			reason: "what cannot be deleted blocks its namespace",
			deployer: &variant{delete: func(context.Context, *sdk.Request) (*sdk.Response, error) {
				return nil, errors.New("cannot delete")
			}},
			want: []Rule{RuleDeleteSucceeds},
		},
		"CannotDeleteTwice": {
			reason: "the host may die between the deletion and its note of it",
			deployer: &variant{delete: func() func(context.Context, *sdk.Request) (*sdk.Response, error) {
				deleted := false
				return func(context.Context, *sdk.Request) (*sdk.Response, error) {
					if deleted {
						return nil, errors.New("not found")
					}
					deleted = true
					return nil, nil
				}
			}()},
			want: []Rule{RuleDeleteAgain},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.deployer.greeter = newGreeter()
			r := record(t, func(t testing.TB) {
				Conform(t, New(t, tc.deployer, greeterOptions()...), Case{Name: name, Call: greeterCall(), Timeout: 10 * time.Second})
			})
			if diff := cmp.Diff(tc.want, r.rules()); diff != "" {
				t.Errorf("%s: broken rules (-want +got):\n%s\nreported:\n%s", tc.reason, diff, strings.Join(r.errors, "\n"))
			}
		})
	}
}

// A call that ignores its cancellation is seen at the end of the test that made it.
func TestCallThatDoesNotEndIsReported(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	deployer := &variant{greeter: newGreeter(), reconcile: func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		req.Progress("block", "ignoring everything")
		<-release
		return nil, nil
	}}
	r := record(t, func(t testing.TB) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		call := greeterCall()
		call.OnMessage = func(Message) { cancel() }
		serve(t, 50*time.Millisecond, deployer, greeterOptions()).Reconcile(ctx, call)
	})
	if diff := cmp.Diff([]Rule{RuleCallEnds}, r.rules()); diff != "" {
		t.Errorf("broken rules (-want +got):\n%s", diff)
	}
}

func TestConformNeedsCompleteCases(t *testing.T) {
	t.Parallel()
	r := record(t, func(t testing.TB) {
		Conform(t, New(t, newGreeter(), greeterOptions()...), Case{Name: "empty"})
	})
	if !r.fatal {
		t.Error("a case without a deploy item was accepted")
	}
}

// The package comment is where an author reads what a rule says.
func TestPackageCommentListsTheRules(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("rules.go")
	if err != nil {
		t.Fatal(err)
	}
	var listed, declared []string
	for _, match := range regexp.MustCompile(`(?m)^//   - ([a-z-]+):`).FindAllStringSubmatch(string(doc), -1) {
		listed = append(listed, match[1])
	}
	for _, match := range regexp.MustCompile(`Rule += "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
		declared = append(declared, match[1])
	}
	if diff := cmp.Diff(declared, listed); diff != "" || len(declared) == 0 {
		t.Errorf("rules in doc.go (-declared +listed):\n%s", diff)
	}
}
