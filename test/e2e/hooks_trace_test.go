package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// flow are the steps of one look at an item in which the plugin is called, by who takes them; but for Start, which comes before the item
// is known. A look that calls nobody ends before BeforeAnyReconcile.
func flow(before hook.Type, method string) []string {
	var steps []string
	for _, hookType := range []hook.Type{
		hook.DuringResponsibilityCheck, hook.AfterResponsibilityCheck, hook.ShouldReconcile, hook.BeforeAnyReconcile, before, hook.End,
	} {
		if hookType == hook.End {
			steps = append(steps, "tracer "+method)
		}
		// Plugins take turns in the order of their names.
		steps = append(steps, "hooksonly "+string(hookType), "tracer "+string(hookType))
	}
	return steps
}

// looks are the steps of each look at an item.
func (h *traced) looks(item *v1alpha1.DeployItem) (looks [][]string) {
	h.t.Helper()
	for _, r := range h.records() {
		if r.Item != item.Namespace+"/"+item.Name {
			continue
		}
		step := r.By + " " + r.Step
		if step == flow("", "")[0] {
			looks = append(looks, nil)
		}
		if len(looks) == 0 {
			h.t.Fatalf("the first look at item %s begins with %s", item.Name, step)
		}
		looks[len(looks)-1] = append(looks[len(looks)-1], step)
	}
	return looks
}

// waitLook waits until the deployer's method was called in a look that has ended, and returns the steps of the first one.
func (h *traced) waitLook(item *v1alpha1.DeployItem, method string) (steps []string) {
	h.t.Helper()
	eventually(h.t, "a whole look that calls "+method, func(context.Context) (string, error) {
		for _, steps = range h.looks(item) {
			if slices.Contains(steps, "tracer "+method) && slices.Contains(steps, "tracer "+string(hook.End)) {
				return "", nil
			}
		}
		return fmt.Sprintf("there is none in %v", h.looks(item)), nil
	})
	return steps
}

// TestHookTrace records all hooks of a deployer and of a plugin without one, from the creation of an item to its end.
func TestHookTrace(t *testing.T) {
	h := startTraced(t, []string{"tracer", "hooksonly"})
	createZoneTarget(t, h.namespace, "my-target", "a")
	waitFile := t.TempDir() + "/wait"
	item := withTarget(h.newItem("item", map[string]any{"waitFor": waitFile, "pollAfter": "1h"}), "my-target")
	item = start(t, item)

	h.checkLook(item, "Reconcile", hook.BeforeReconcile)
	ask(t, item, v1alpha1.OperationAbort)
	waitAborted(t, item, item.Status.JobID, v1alpha1.DeployItemPhaseFailed)
	h.checkLook(item, "Abort", hook.BeforeAbort)
	touch(t, waitFile)
	ask(t, item, v1alpha1.OperationForceReconcile)
	waitFinishedAfter(t, item, item.Status.JobID)
	h.checkLook(item, "ForceReconcile", hook.BeforeForceReconcile)
	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	setJob(t, item)
	waitGone(t, item)
	h.checkLook(item, "Delete", hook.BeforeDelete)

	h.checkLooks(item)
	h.checkStarts()
	h.checkArguments(item)
}

// checkLook checks the order of the steps of the look in which a method of the deployer was called first.
func (h *traced) checkLook(item *v1alpha1.DeployItem, method string, before hook.Type) {
	h.t.Helper()
	if diff := cmp.Diff(flow(before, method), h.waitLook(item, method)); diff != "" {
		h.t.Errorf("steps of %s (-want +got):\n%s", method, diff)
	}
}

// checkLooks checks that each look is whole, or ends where it turns out that there is nothing to do.
func (h *traced) checkLooks(item *v1alpha1.DeployItem) {
	h.t.Helper()
	right := [][]string{
		flow(hook.BeforeReconcile, "Reconcile"), flow(hook.BeforeAbort, "Abort"), flow(hook.BeforeForceReconcile, "ForceReconcile"),
		flow(hook.BeforeDelete, "Delete"),
	}
	for _, end := range []hook.Type{hook.DuringResponsibilityCheck, hook.AfterResponsibilityCheck, hook.ShouldReconcile} {
		right = append(right, right[0][:slices.Index(right[0], "tracer "+string(end))+1])
	}
	for _, steps := range h.looks(item) {
		if !slices.ContainsFunc(right, func(r []string) bool { return slices.Equal(r, steps) }) {
			h.t.Errorf("a look has the steps\n%s", strings.Join(steps, "\n"))
		}
	}
}

// checkStarts checks that before each look at any item there was a start, which belongs to none.
func (h *traced) checkStarts() {
	h.t.Helper()
	starts, looks := map[string]int{}, map[string]int{}
	for _, r := range h.records() {
		switch r.Step {
		case string(hook.Start):
			starts[r.By]++
		case string(hook.DuringResponsibilityCheck):
			if looks[r.By]++; looks[r.By] > starts[r.By] {
				h.t.Errorf("look %d of %s comes after %d starts", looks[r.By], r.By, starts[r.By])
			}
		}
	}
}

// checkArguments checks that all types have come in the trace of both plugins, and with what.
func (h *traced) checkArguments(item *v1alpha1.DeployItem) {
	h.t.Helper()
	came := map[string]bool{}
	for _, r := range h.records() {
		starts := r.Step == string(hook.Start)
		if !slices.Contains(hook.Types(), hook.Type(r.Step)) || !starts && r.Item != item.Namespace+"/"+item.Name {
			continue
		}
		came[r.By+" "+r.Step] = true
		if starts && (r.Item != "" || r.Target != nil) {
			h.t.Errorf("expected neither item nor Target at the start, but found %+v", r)
		}
		if !starts && (r.Target == nil || r.Target.Name != "my-target" || r.Target.Spec.Configuration != nil) {
			h.t.Errorf("expected the Target without its content, but found %+v", r)
		}
	}
	if want := 2 * len(hook.Types()); len(came) != want {
		h.t.Errorf("expected all types of hooks of both plugins, but found %v", came)
	}
}

// TestHooksOfOtherTypes: a plugin's hooks run for the types that it names, and for no others.
func TestHooksOfOtherTypes(t *testing.T) {
	h := startTraced(t, []string{"tracer", "hooksonly", "mock", "probe"})
	carryOut(t, newItem(h.namespace, "mock", mockType, mockSucceeds), v1alpha1.DeployItemPhaseSucceeded)
	passTime(t, h.namespace)

	came := h.ofNamespace()
	if len(came) == 0 {
		t.Fatal("the plugin hooksonly has recorded nothing about the item of the plugin mock")
	}
	for _, r := range came {
		if r.By != "hooksonly" || r.Item != h.namespace+"/mock" {
			t.Errorf("expected hooksonly to run hooks for the item of the plugin mock alone, but found %+v", r)
		}
	}
}
