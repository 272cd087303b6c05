package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance"
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
}

// traveller is a greeter that needs another Target, reports a condition and tells beforehand what it would change.
type traveller struct{ *greeter }

func (t *traveller) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	if err := req.DecodeConfig(&greeterConfig{}); err != nil {
		return nil, err
	}
	if _, err := req.ResolveTarget(ctx, "abroad"); err != nil {
		return nil, err
	}
	res, err := t.greeter.Reconcile(ctx, req)
	if res != nil {
		res.Conditions = []sdk.Condition{{Type: "Abroad", Status: v1alpha1.ConditionTrue, Reason: "Travelled"}}
	}
	return res, err
}

func (t *traveller) Diff(_ context.Context, req *sdk.Request) (*sdk.DiffResponse, error) {
	if t.greets(req.DeployItem.Name) {
		return nil, nil
	}
	return &sdk.DiffResponse{Changes: []sdk.Change{{
		Object: req.DeployItem.Name, Action: sdk.ActionCreate, After: json.RawMessage(`{"kind":"Secret","data":{"greeting":"Z29vZCBtb3JuaW5n"}}`),
	}}}, nil
}

// A deployer that cannot do without another Target fails where the host is too old, and keeps the rules.
func TestConformAnswersQuestions(t *testing.T) {
	t.Parallel()
	call := greeterCall()
	call.Targets = map[string]*sdk.Target{"abroad": {Name: "abroad"}}
	Conform(t, New(t, &traveller{newGreeter()}, greeterOptions()...), Case{Name: "travels", Call: call})
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
			want:     []Rule{conformance.RuleConfigRequired, conformance.RuleConfigStrict},
		},
		"RefusesWithoutCode": {
			reason: "without the code the host tries again until the time is up",
			deployer: &variant{reconcile: func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
				if err := req.DecodeConfig(&greeterConfig{}); err != nil {
					return nil, errors.New(err.Error())
				}
				return nil, nil
			}},
			want: []Rule{conformance.RuleConfigRequired, conformance.RuleConfigStrict},
		},
		"RefusesWithoutField": {
			reason: "the user has to find the mistake",
			deployer: &variant{reconcile: func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
				if err := req.DecodeConfig(&greeterConfig{}); err != nil {
					return nil, sdk.ConfigurationError("Wrong", "something is wrong")
				}
				return nil, nil
			}},
			want: []Rule{conformance.RuleConfigRequired, conformance.RuleConfigStrict},
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
			want: []Rule{conformance.RuleReconcileAgain},
		},
		"TargetIsMissing": {
			reason: "a case has to say which Targets there are",
			deployer: &variant{reconcile: func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
				if err := req.DecodeConfig(&greeterConfig{}); err != nil {
					return nil, err
				}
				_, err := req.ResolveTarget(ctx, "abroad")
				return nil, err
			}},
			want: []Rule{conformance.RuleReconcileSucceeds},
		},
		"CannotDelete": {
			reason: "what cannot be deleted blocks its namespace",
			deployer: &variant{delete: func(context.Context, *sdk.Request) (*sdk.Response, error) {
				return nil, errors.New("cannot delete")
			}},
			want: []Rule{conformance.RuleDeleteSucceeds},
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
			want: []Rule{conformance.RuleDeleteAgain},
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
		serve(t, 50*time.Millisecond, ofDeployer(deployer, greeterOptions())).Reconcile(ctx, call)
	})
	if diff := cmp.Diff([]Rule{conformance.RuleCallEnds}, r.rules()); diff != "" {
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
