package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/plugins/testplugin/trace"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const traceType = "example.org/trace"

// traceFile is a new trace.
func traceFile(t *testing.T) trace.File {
	t.Helper()
	return trace.File(t.TempDir() + "/trace")
}

// tracedConfig is a HostConfiguration with these lines, in which the plugins with hooks record in a file.
func tracedConfig(t *testing.T, file trace.File, settings ...string) string {
	t.Helper()
	config := anyConfig + strings.Join(append(settings, "plugins:"), "\n") + "\n"
	for _, name := range []string{"tracer", "hooksonly"} {
		config += fmt.Sprintf("  %s: {args: [%q], confinement: {write: [%q]}}\n", name, file, os.TempDir())
	}
	return writeConfig(t, config)
}

// tracerConfig is a configuration of the plugin tracer.
func tracerConfig(t *testing.T, fields map[string]any) string {
	t.Helper()
	config := map[string]any{"apiVersion": "test.pergola.dev/v1", "kind": "Trace"}
	for field, value := range fields {
		config[field] = value
	}
	return string(marshal(t, config))
}

// TestHooks records what is called for an item from its creation to its end: the hooks of its deployer and of a
// plugin without one, in the order of the flow, around each operation. A hook that hangs or aborts holds the job
// up, and one that asks for it has it looked at again.
func TestHooks(t *testing.T) {
	file, wait, answer, agree := traceFile(t), t.TempDir()+"/wait", t.TempDir()+"/answer", t.TempDir()+"/agree"
	startReadyHost(t, testenv.HostOptions{
		PluginDir: pluginDir(t, "tracer", "hooksonly", "mock"), Config: tracedConfig(t, file, "timeouts: {hook: 1s}"),
	})
	namespace := newNamespace(t)
	createZoneTarget(t, namespace, "my-target", "a")
	item := newItem(namespace, "item", traceType, tracerConfig(t, map[string]any{
		"waitFor": wait, "pollAfter": "1h", "hooks": map[hook.Type]any{
			hook.BeforeAnyReconcile: map[string]any{"hang": true, "unless": answer},
			hook.BeforeReconcile:    map[string]any{"abort": true, "requeueAfter": "100ms", "unless": agree},
			hook.End:                map[string]any{"requeueAfter": "100ms", "unless": wait},
		},
	}))
	h := &hookTrace{t: t, file: file, item: namespace + "/item"}

	item = start(t, withTarget(item, "my-target"))
	if e := waitLastError(t, item, string(hook.BeforeAnyReconcile)).Status.LastError; e.Reason != "HookTimeout" {
		t.Errorf("expected an error about a hook that is too slow, but found %s", marshal(t, e))
	}
	touch(t, answer)
	h.waitStep("tracer "+string(hook.BeforeReconcile), 2)
	for _, steps := range h.reconciles() {
		if slices.Contains(steps, "tracer Reconcile") {
			t.Errorf("the deployer was called although a hook has aborted: %v", steps)
		}
	}
	touch(t, agree)
	h.waitStep("tracer Reconcile", 2) // without the hook the next call would come after an hour
	h.expectFlow(hook.BeforeReconcile, "Reconcile")
	ask(t, item, v1alpha1.OperationAbort)
	if e := waitPhase(t, item, failed).Status.LastError; e == nil || e.Reason != "Aborted" {
		t.Errorf("expected the job to be aborted, but found %s", marshal(t, e))
	}
	h.expectFlow(hook.BeforeAbort, "Abort")
	touch(t, wait)
	ask(t, item, v1alpha1.OperationForceReconcile)
	waitFinishedAfter(t, item, item.Status.JobID)
	h.expectFlow(hook.BeforeForceReconcile, "ForceReconcile")
	deleteItem(t, item)
	h.expectFlow(hook.BeforeDelete, "Delete")
	h.expectArguments()

	carryOut(t, newItem(namespace, "mock", mockType, mockSucceeds), succeeded)
	of := &hookTrace{t: t, file: file, item: namespace + "/mock"}
	of.waitStep("hooksonly "+string(hook.End), 1)
	for _, r := range of.records() {
		if r.By != "hooksonly" {
			t.Errorf("expected only hooksonly to run hooks for the item of the plugin mock, but found %+v", r)
		}
	}
}

// hookTrace is what plugins have recorded about an item.
type hookTrace struct {
	t    *testing.T
	file trace.File
	item string // namespace/name
}

func (h *hookTrace) records() []trace.Record {
	h.t.Helper()
	records, err := h.file.Read()
	if err != nil {
		h.t.Fatal(err)
	}
	return slices.DeleteFunc(records, func(r trace.Record) bool { return r.Item != h.item })
}

// reconciles are the steps of each reconcile of the item, by who takes them.
func (h *hookTrace) reconciles() (found [][]string) {
	h.t.Helper()
	for _, r := range h.records() {
		step := r.By + " " + r.Step
		if len(found) == 0 || step == "hooksonly "+string(hook.DuringResponsibilityCheck) {
			found = append(found, nil)
		}
		found[len(found)-1] = append(found[len(found)-1], step)
	}
	return found
}

// waitStep waits until a step is so often in the trace.
func (h *hookTrace) waitStep(step string, atLeast int) {
	h.t.Helper()
	eventually(h.t, fmt.Sprintf("%s number %d", step, atLeast), func(context.Context) (string, error) {
		n := 0
		for _, r := range h.records() {
			if r.By+" "+r.Step == step {
				n++
			}
		}
		if n < atLeast {
			return fmt.Sprintf("there were %d", n), nil
		}
		return "", nil
	})
}

// expectFlow expects the steps of the first reconcile in which a method of the deployer was called; but for Start,
// which comes before the item is known. Plugins take turns in the order of their names.
func (h *hookTrace) expectFlow(before hook.Type, method string) {
	h.t.Helper()
	var want []string
	for _, hookType := range []hook.Type{
		hook.DuringResponsibilityCheck, hook.AfterResponsibilityCheck, hook.ShouldReconcile, hook.BeforeAnyReconcile, before,
		hook.End,
	} {
		if hookType == hook.End {
			want = append(want, "tracer "+method)
		}
		want = append(want, "hooksonly "+string(hookType), "tracer "+string(hookType))
	}
	var got []string
	eventually(h.t, "a whole reconcile that calls "+method, func(context.Context) (string, error) {
		for _, got = range h.reconciles() {
			if slices.Contains(got, "tracer "+method) && slices.Contains(got, "tracer "+string(hook.End)) {
				return "", nil
			}
		}
		return fmt.Sprintf("there is none in %v", h.reconciles()), nil
	})
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("steps of %s (-want +got):\n%s", method, diff)
	}
}

// expectArguments expects that Start has come without an item and a Target, and the others with the Target without
// its content.
func (h *hookTrace) expectArguments() {
	h.t.Helper()
	all, err := h.file.Read()
	if err != nil {
		h.t.Fatal(err)
	}
	starts := slices.DeleteFunc(all, func(r trace.Record) bool { return r.Step != string(hook.Start) })
	if len(starts) == 0 || starts[0].Item != "" || starts[0].Target != nil {
		h.t.Errorf("expected Start without an item and a Target, but found %+v", starts)
	}
	for _, r := range h.records() {
		ofHook := slices.Contains(hook.Types(), hook.Type(r.Step))
		if ofHook && (r.Target == nil || r.Target.Name != "my-target" || r.Target.Spec.Configuration != nil) {
			h.t.Errorf("expected the Target without its content, but found %+v", r)
		}
	}
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
