package deployer_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestCrashAtEachStep lets each step of a job go wrong in turn, in each way that it can, and checks what the target and the host have at
// the end against a job that nothing has happened to. On the way every object of the item is known to the host.
func TestCrashAtEachStep(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			undisturbed, steps := live(t, s, 0, fault{})
			for i, step := range steps {
				for _, f := range faultsOf(step) {
					t.Run(fmt.Sprintf("step %d of %d %s", i+1, len(steps), f.name), func(t *testing.T) {
						t.Parallel()
						disturbed, _ := live(t, s, i+1, f)
						if diff := cmp.Diff(undisturbed, disturbed, cmpopts.EquateEmpty()); diff != "" {
							t.Errorf("%s, but after a fault at %q the end is another one: -undisturbed +disturbed:\n%s", s.reason, step, diff)
						}
					})
				}
			}
		})
	}
}

// live carries a scenario out and returns what came of it, and the steps of its job.
func live(t *testing.T, s scenario, strikeAt int, f fault) (state, []string) {
	t.Helper()
	first := s.before
	if first == nil {
		first = s.job
	}
	l := newLife(t, first)
	if s.before != nil {
		l.carryOut(scenario{}.operation())
	}
	if s.foreign != nil {
		s.foreign(l.world)
	}
	l.setConfig(l.item, s.job(l.world))
	l.begin(strikeAt, f)
	l.carryOut(s.operation())
	end, steps := l.state(), l.steps

	l.begin(0, fault{})
	l.carryOut(s.operation())
	for _, step := range l.steps {
		if isWrite(step) {
			t.Errorf("another job finds something to do: %s", step)
		}
	}
	return end, steps
}

// TestCrashWhilePatching kills the plugin after patchAfterDeployment, of a job that has waited before, so that what it has applied was noted
// without the patch. The patch must not be taken for a change that somebody else has made.
func TestCrashWhilePatching(t *testing.T) {
	t.Parallel()
	reconcile := scenario{}.operation()
	l := newLife(t, func(w *world) object {
		slow := w.deployment("slow", "none")
		slow["metadata"].(object)["labels"] = object{"state": "applied"}
		return configOf(entry(slow, object{"patchAfterDeployment": object{"metadata": object{"labels": object{"state": "deployed"}}}}))
	})
	if l.callOnce(reconcile) {
		t.Fatal("expected the job to wait for the Deployment")
	}
	l.ready("slow")

	l.begin(3, killedAfter)
	l.callOnce(reconcile)
	patch := http.MethodPatch + " /apis/apps/v1/namespaces/" + l.namespace + "/deployments/slow"
	if diff := cmp.Diff([]string{http.MethodGet + patch[len(http.MethodPatch):], stepSave, patch}, l.steps); diff != "" {
		t.Fatalf("until the plugin was killed: -want +got:\n%s", diff)
	}
	l.begin(0, fault{})
	l.carryOut(reconcile)
	for _, step := range l.steps {
		if isWrite(step) {
			t.Errorf("expected nothing to be left to do, but found %s", step)
		}
	}
	if l.state().Drifted {
		t.Error("the patch was taken for a drift")
	}
	if got := l.mustGet(deployments, "slow").GetLabels()["state"]; got != "deployed" {
		t.Errorf("expected the label of the patch, but found %q", got)
	}
}
