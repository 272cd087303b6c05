package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestHTTPHookErrors: a job ends, is tried again or goes on as the error says; see TestStructuredErrors of httphook.
// Rule (hooks.md#answers): An error ends the job with `permanent`, lets it go on with `continue`, and is tried again
// without both.
func TestHTTPHookErrors(t *testing.T) {
	t.Parallel()
	for phase, tc := range map[v1alpha1.HookCapability]struct {
		operation, call  string
		underWay, failed v1alpha1.DeployItemPhase
	}{
		v1alpha1.HookPreReconcile: {
			"HookPreReconcile", "call Reconcile", v1alpha1.DeployItemPhaseProgressing, v1alpha1.DeployItemPhaseFailed,
		},
		v1alpha1.HookFinalize: {
			"HookFinalize", "call Delete", v1alpha1.DeployItemPhaseDeleting, v1alpha1.DeployItemPhaseDeleteFailed,
		},
	} {
		for fields, want := range map[string]string{
			``: "again", `,"permanent":true`: "failed", `,"continue":true`: "goes on",
		} {
			t.Run(string(phase)+fields, func(t *testing.T) {
				t.Parallel()
				b := newHookedByHTTP(t, done, phase)
				b.fails(fields)
				if phase == v1alpha1.HookFinalize {
					b.beginDeletion()
				} else {
					b.setJob()
				}
				b.clock.Step(b.reconcile(t.Context()))
				item := b.read()
				if want == "goes on" {
					b.expectPassed("the job goes on", string(phase), tc.call)
				} else {
					b.expectPassed("the job does not go on", string(phase))
					b.expectPhase(map[string]v1alpha1.DeployItemPhase{"again": tc.underWay, "failed": tc.failed}[want])
					last, c := item.Status.LastError, conditionOf(item, "HookAnswered")
					if last == nil || last.Operation != tc.operation || !strings.Contains(last.Message, "no room") ||
						c == nil || c.Status != v1alpha1.ConditionFalse {
						t.Errorf("%s: found %s, condition %v", want, describe(item), c)
					}
				}
				b.serve = nil
				if item = b.drive(); want == "failed" {
					b.expectPassed("it is not tried again")
				} else if item != nil && item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
					t.Errorf("the job does not go on when the hook answers: %s", describe(item))
				}
			})
		}
	}
}

// TestSlowRequestIsNoTimeout: a write of what the hook has answered that takes too long, or the read after a conflict
// of it, is tried again, and is not taken for the job's timeout.
func TestSlowRequestIsNoTimeout(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "deployitems"}, "item", errors.New("changed"))
	for name, err := range map[string]error{"write": context.DeadlineExceeded, "read": conflict} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHookedByHTTP(t, done, v1alpha1.HookPreReconcile)
			slow := false
			b.write = func(n int, do func() error) error {
				if n == 3 { // after the pick-up and the finalizer
					slow = name == "read"
					return err
				}
				return do()
			}
			b.onRead(func(_ client.Object, do func() error) error {
				if slow {
					slow = false
					return context.DeadlineExceeded
				}
				return do()
			})
			b.setJob()
			if item := b.drive(); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || len(b.errs) != 1 {
				t.Errorf("expected success after one error, but found %s, errors %v", describe(item), b.errs)
			}
		})
	}
}

// fails has the hook answer with an error that has more fields than its message.
func (b *hookedByHTTP) fails(fields string) {
	b.serve = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprintf(w, `{"message":"no room"%s}`, fields)
	}
}

// notReadyError is the error about a hook of some phases.
type notReadyError []v1alpha1.HookCapability

func (notReadyError) Error() string { return "no such Service" }

func (n notReadyError) Concerns(phase v1alpha1.HookCapability) bool { return slices.Contains(n, phase) }

// TestHTTPHookThatCannotBeCalled: what is registered is never passed over in the phases that it is called in.
// Rule (hooks.md#registration): A registered hook is not skipped if it cannot be called.
func TestHTTPHookThatCannotBeCalled(t *testing.T) {
	t.Parallel()
	b := newHookedByHTTP(t, done, v1alpha1.HookPreReconcile)
	b.registered = notReadyError{v1alpha1.HookPreReconcile}
	b.setJob()
	wait := b.reconcile(t.Context())
	item := b.read()
	if b.expectPassed("nothing is done"); item.Status.LastError == nil || item.Status.LastError.Reason != "HookNotReady" ||
		wait == 0 {
		t.Errorf("%s, next reconcile after %s", describe(item), wait)
	}
	b.registered = nil
	b.router.HTTPHooksChanged([]v1alpha1.DeployItemType{"another"})
	b.reconcile(t.Context())
	b.expectPassed("another type's hook is no reason to reconcile")
	b.router.HTTPHooksChanged([]v1alpha1.DeployItemType{testType})
	b.reconcile(t.Context())
	b.expectPassed("the hook has come", "pre-reconcile", "call Reconcile")
	b.registered = notReadyError{v1alpha1.HookPreReconcile}
	b.remove(b.item)
	b.setJob()
	if item := b.drive(); item != nil {
		t.Error(describe(item))
	}
	b.expectPassed("it is not called for deletions", "call Delete")
}

func TestErrorsBeforeAnHTTPHook(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason   string
		rendered *plugin.Rendered
		err      error
		phase    v1alpha1.DeployItemPhase
		want     string
	}{
		"wrong configuration": {
			reason: "the deployer says so by its codes",
			rendered: &plugin.Rendered{
				Errors: []plugin.Error{
					{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Reason: "ConfigInvalid", Message: "no"},
				},
			},
			phase: v1alpha1.DeployItemPhaseFailed, want: "ConfigInvalid",
		},
		"not running": {reason: "it is tried again", err: plugin.ErrNotRunning, phase: v1alpha1.DeployItemPhaseProgressing},
		"crashed": {
			reason: "it counts as any crash", err: plugin.ErrCrashed, phase: v1alpha1.DeployItemPhaseProgressing,
			want: "PluginCrashed",
		},
		"no objects": {
			reason:   "that is the plugin's fault",
			rendered: &plugin.Rendered{Children: []sdk.Child{{Name: "a", Object: json.RawMessage(`{}`)}}},
			phase:    v1alpha1.DeployItemPhaseProgressing, want: "PluginProtocolError",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHookedByHTTP(t, done, v1alpha1.HookPreReconcile)
			b.plugin.OnRender = func(context.Context, plugin.Call) (*plugin.Rendered, error) { return tc.rendered, tc.err }
			b.setJob()
			b.reconcile(t.Context())
			item, got := b.read(), ""
			if item.Status.LastError != nil {
				got = item.Status.LastError.Reason
			}
			if item.Status.Phase != tc.phase || got != tc.want {
				t.Errorf("%s: expected reason %q, but found %s", tc.reason, tc.want, describe(item))
			}
			b.expectPassed(tc.reason)
		})
	}
}

// TestSpecChangesWhileAnHTTPHookIsAsked: the plugin does not get children of another spec than the item's.
func TestSpecChangesWhileAnHTTPHookIsAsked(t *testing.T) {
	t.Parallel()
	b := newHookedByHTTP(t, done, v1alpha1.HookPreReconcile)
	child := func(generation int64, label string) string {
		return fmt.Sprintf(
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"%s},"data":{"n":"%d"}}`, label,
			generation,
		)
	}
	var rendered int64
	b.plugin.OnRender = func(_ context.Context, c plugin.Call) (*plugin.Rendered, error) {
		rendered = c.DeployItem.Generation
		return &plugin.Rendered{
			Children: []sdk.Child{{Name: "manifests[0]", Object: json.RawMessage(child(rendered, ""))}},
		}, nil
	}
	change := sync.OnceFunc(func() { b.patch(b.item, `{"spec":{"config":{"apiVersion":"x/v1","kind":"X","n":2}}}`) })
	b.serve = func(w http.ResponseWriter, _ *http.Request) {
		change()
		_, _ = fmt.Fprintf(w, `{"children":{"configmap":%s}}`, child(rendered, `,"labels":{"x":"y"}`))
	}
	calls := 0
	b.plugin.OnCall = func(
		_ context.Context, _ plugin.Operation, c plugin.Call, _ plugin.Observer,
	) (*plugin.Outcome, error) {
		if calls++; c.DeployItem.Generation != rendered {
			t.Errorf("the item is of generation %d, and its children of generation %d", c.DeployItem.Generation, rendered)
		}
		return succeeded()
	}
	b.setJob()
	if item := b.drive(); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || calls != 1 {
		t.Errorf("%s after %d calls", describe(item), calls)
	}
}
