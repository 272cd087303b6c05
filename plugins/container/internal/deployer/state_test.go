package deployer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const acceptLoss = "container.pergola.dev/accept-lost-state"

// TestStateIsLost: after a run whose state could not be kept, no run begins with the older one before the item accepts
// the loss of that very run, and the failure says so.
// Rule (container.md#lost-state): No run begins with an older state than that of the last run, unless the item accepts
// the loss.
func TestStateIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		args   []string
		why    string
	}{
		"upload lost": {
			"the wait container was killed", []string{"lose"}, "container wait has not uploaded exports and state",
		},
		"not accepted": {
			"main itself has failed as well", []string{"overflow", "last words"}, "the state is not kept: it is too large",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item("count")
			w.succeed(item)
			w.SetConfig(item, w.config(c.args...))
			failure, run := w.failing(item), w.status(item).Run.Name
			accepted := fmt.Sprintf("%s: %q", acceptLoss, run)
			if strings.Count(failure, c.why) != 1 || !strings.Contains(failure, accepted) ||
				!strings.Contains(failure, strings.Join(c.args[1:], "")) {
				t.Errorf("%s: found %s", c.reason, failure)
			}
			w.SetConfig(item, w.config("count"))
			for _, annotation := range []string{"", "true", run + "-1"} {
				item.Annotations = map[string]string{acceptLoss: annotation}
				for _, operation := range []plugintest.Operation{plugintest.Reconcile, plugintest.Delete} {
					w.refusesLoss(operation, item, c.why, accepted)
				}
			}
			item.Annotations = map[string]string{acceptLoss: run}
			for want := 2; want <= 3; want++ {
				if found := fmt.Sprint(w.succeed(item)["count"]); found != fmt.Sprint(want) {
					t.Errorf("expected %d, but found %s", want, found)
				}
				if lost := w.status(item).StateLost; lost != nil {
					t.Errorf("the next run has left a state, but found %v", lost)
				}
				item.Annotations = nil
			}
			w.discard(item, false)
		})
	}
}

// refusesLoss expects that a new job fails over a lost state, and runs nothing.
func (w *world) refusesLoss(operation plugintest.Operation, item *landscaper.DeployItem, says ...string) {
	w.Helper()
	runs := len(w.node.ranIn())
	plugintest.NewJob(item)
	result := w.Finish(operation, item)
	if result.Failed == nil || result.Failed.Errors[0].Reason != "StateLost" {
		w.Fatalf("expected StateLost, but found %s", result)
	}
	for _, part := range says {
		if !strings.Contains(result.Failed.Error(), part) {
			w.Errorf("expected %q in %s", part, result)
		}
	}
	if found := len(w.node.ranIn()); found != runs {
		w.Errorf("expected no run, but found %d", found-runs)
	}
}

// TestNoStateIsLost: what was stopped before its end has left nothing, and the next run begins with the state of
// before.
// Rule (container.md#lost-state): A run loses no state if others delete its Pod before its end.
func TestNoStateIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	w.succeed(item)
	w.SetConfig(item, w.config("hang"))
	plugintest.NewJob(item)
	w.Do(plugintest.Reconcile, item)
	w.awaitRun(2)
	w.removeByForce(&w.pods()[0])
	if result := w.Finish(plugintest.Reconcile, item); result.Failed == nil || w.status(item).StateLost != nil {
		t.Errorf("found %s and %+v", result, w.status(item).StateLost)
	}
	w.SetConfig(item, w.config("count"))
	w.succeed(item)
	w.discard(item, false)
}

// TestStateAboveTheLimit: an image does not run when its state could not be kept even as it is, until the operator has
// raised the limit again.
// Rule (container.md#jobs-and-errors): An image does not run with a state above the limit.
func TestStateAboveTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	w.succeed(item)
	w.change(item, func(s *v1alpha1.ProviderStatus) { s.State.Chunks = 2 })
	w.Configure(object{"limits": object{"state": "1Mi"}})
	plugintest.NewJob(item)
	result := w.Do(plugintest.Reconcile, item)
	if result.Failed == nil || result.Failed.Errors[0].Reason != "StateTooLarge" || len(result.Failed.Codes()) > 0 ||
		!strings.Contains(result.Failed.Error(), "in 2 Secrets of 1048576 bytes, but limits.state allows 1") {
		t.Errorf("found %s", result)
	}
	w.change(item, func(s *v1alpha1.ProviderStatus) { s.State.Chunks = 1 })
	if result := w.Finish(plugintest.Reconcile, item); fmt.Sprint(w.exportsOf(result)["count"]) != "2" {
		t.Errorf("found %s", result)
	}
	w.discard(item, false)
}
