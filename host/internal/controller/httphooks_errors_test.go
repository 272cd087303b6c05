package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestHTTPHookErrors is the table of what a hook can say when it fails.
func TestHTTPHookErrors(t *testing.T) {
	t.Parallel()
	values := []string{"", "true", "false"}
	for _, phase := range []v1alpha1.HookCapability{v1alpha1.HookPreReconcile, v1alpha1.HookFinalize} {
		for _, permanent := range values {
			for _, goOn := range values {
				t.Run(fmt.Sprintf("%s permanent=%s continue=%s", phase, permanent, goOn), func(t *testing.T) {
					t.Parallel()
					b := newHookedByHTTP(t, done, phase)
					b.fails(permanent, goOn)
					deletion := phase == v1alpha1.HookFinalize
					jobID := b.setJob()
					if deletion {
						b.drive()
						b.remove(b.item)
						jobID = b.setJob()
					}
					b.passed, b.errs = nil, nil
					b.clock.Step(b.look(t.Context()))
					b.expectVerdict(deletion, permanent == "true", goOn == "true", jobID)
				})
			}
		}
	}
}

// fails has the hook answer with an error; of the fields of that those are set that are not empty.
func (b *hookedByHTTP) fails(permanent, goOn string) {
	fields := []string{`"message":"no room"`}
	if permanent != "" {
		fields = append(fields, `"permanent":`+permanent)
	}
	if goOn != "" {
		fields = append(fields, `"continue":`+goOn)
	}
	b.serve = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprintf(w, "{%s}", strings.Join(fields, ","))
	}
}

func (b *hookedByHTTP) expectVerdict(deletion, permanent, goOn bool, jobID string) {
	b.t.Helper()
	item := b.read()
	operation, phase, failed, underWay := "HookPreReconcile", "pre-reconcile", v1alpha1.DeployItemPhaseFailed, v1alpha1.DeployItemPhaseProgressing
	call := "call Reconcile"
	if deletion {
		operation, phase, failed, underWay = "HookFinalize", "finalize", v1alpha1.DeployItemPhaseDeleteFailed, v1alpha1.DeployItemPhaseDeleting
		call = "call Delete"
	}
	if goOn {
		b.expectPassed("the job goes on", phase, call)
		if deletion && item != nil || !deletion && item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
			b.t.Errorf("the job does not go on: %s", describe(item))
		}
		return
	}
	b.expectPassed("the job does not go on", phase)
	last := item.Status.LastError
	if last == nil || last.Operation != operation || !strings.Contains(last.Message, "no room") {
		b.t.Errorf("unexpected error: %v", last)
	}
	if c := conditionOf(item, "HookAnswered"); c == nil || c.Status != v1alpha1.ConditionFalse {
		b.t.Errorf("unexpected condition: %v", c)
	}
	want := underWay
	if permanent {
		want = failed
	}
	if finished := item.Status.JobIDFinished == jobID; item.Status.Phase != want || finished != permanent {
		b.t.Errorf("expected phase %s, finished %t, but found %s", want, permanent, describe(item))
	}
	b.serve = nil
	if permanent {
		if wait := b.look(b.t.Context()); wait != 0 {
			b.t.Errorf("it is looked at again after %s", wait)
		}
		return
	}
	if item = b.drive(); deletion && item != nil || !deletion && item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		b.t.Errorf("the job does not go on when the hook answers: %s", describe(item))
	}
}

// notReadyError is the error about a hook of some phases.
type notReadyError []v1alpha1.HookCapability

func (notReadyError) Error() string { return "no such Service" }

func (n notReadyError) Concerns(phase v1alpha1.HookCapability) bool { return slices.Contains(n, phase) }

// TestHTTPHookThatCannotBeCalled: what is registered is never passed over in the phases that it is called in.
func TestHTTPHookThatCannotBeCalled(t *testing.T) {
	t.Parallel()
	b := newHookedByHTTP(t, done, v1alpha1.HookPreReconcile)
	b.registered = notReadyError{v1alpha1.HookPreReconcile}
	b.setJob()
	wait := b.look(t.Context())
	item := b.read()
	if b.expectPassed("nothing is done"); item.Status.LastError == nil || item.Status.LastError.Reason != "HookNotReady" || wait == 0 {
		t.Errorf("%s, next look after %s", describe(item), wait)
	}
	b.registered = nil
	b.router.hooksMended([]v1alpha1.DeployItemType{"another"})
	b.look(t.Context())
	b.expectPassed("another type's hook is no reason to look")
	b.router.hooksMended([]v1alpha1.DeployItemType{testType})
	b.look(t.Context())
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
			reason:   "the deployer says so by its codes",
			rendered: &plugin.Rendered{Errors: []plugin.Error{{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Reason: "ConfigInvalid", Message: "no"}}},
			phase:    v1alpha1.DeployItemPhaseFailed, want: "ConfigInvalid",
		},
		"not running": {reason: "it is tried again", err: plugin.ErrNotRunning, phase: v1alpha1.DeployItemPhaseProgressing},
		"crashed":     {reason: "it counts as any crash", err: plugin.ErrCrashed, phase: v1alpha1.DeployItemPhaseProgressing, want: "PluginCrashed"},
		"no objects": {
			reason:   "that is the plugin's fault",
			rendered: &plugin.Rendered{Children: []sdk.Child{{Name: "a", Object: json.RawMessage(`{}`)}}},
			phase:    v1alpha1.DeployItemPhaseProgressing, want: "PluginProtocolError",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHookedByHTTP(t, done, v1alpha1.HookPreReconcile)
			b.plugin.render = func(context.Context, plugin.Call) (*plugin.Rendered, error) { return tc.rendered, tc.err }
			b.setJob()
			b.look(t.Context())
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
