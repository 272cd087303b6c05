package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/plugins/tracer/trace"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const traceType = "example.org/trace"

// traced is a host whose plugins tracer and hooksonly record what they are called for.
type traced struct {
	*testenv.Host

	t         *testing.T
	namespace string
	file      trace.File
}

// startTraced starts a host with the named plugins and with these lines in its HostConfiguration.
func startTraced(t *testing.T, plugins []string, settings ...string) *traced {
	t.Helper()
	file := traceFile(t)
	return &traced{
		Host: startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, plugins...), Config: tracedConfig(t, file, settings...)}),
		t:    t, namespace: newNamespace(t), file: file,
	}
}

// traceFile is a new trace.
func traceFile(t *testing.T) trace.File {
	t.Helper()
	return trace.File(t.TempDir() + "/trace")
}

// tracedConfig is a HostConfiguration with these lines, in which the plugins with hooks record in a file.
func tracedConfig(t *testing.T, file trace.File, settings ...string) string {
	t.Helper()
	config := append(slices.Clone(settings), "plugins:")
	for _, name := range tracers {
		config = append(config, fmt.Sprintf("  %s: {confinement: {write: [%q]}}", name, os.TempDir()))
	}
	for _, name := range []string{"tracer", "hooksonly"} {
		config = append(config, fmt.Sprintf("  %s: {args: [%q], confinement: {write: [%q]}}", name, file, os.TempDir()))
	}
	return writeConfig(t, anyConfig+strings.Join(config, "\n")+"\n")
}

// with is the host for a test within the test.
func (h *traced) with(t *testing.T) *traced {
	t.Helper()
	return &traced{Host: h.Host, t: t, namespace: h.namespace, file: h.file}
}

// newItem returns an item of the plugin tracer with these fields in its provider configuration.
func (h *traced) newItem(name string, fields map[string]any) *v1alpha1.DeployItem {
	h.t.Helper()
	return newItem(h.namespace, name, traceType, tracerConfig(h.t, fields))
}

func tracerConfig(t *testing.T, fields map[string]any) string {
	t.Helper()
	config := map[string]any{"apiVersion": "test.pergola.dev/v1", "kind": "Trace"}
	for field, value := range fields {
		config[field] = value
	}
	return string(marshal(t, config))
}

// behaviour is what a hook of the plugin tracer does; see there for the fields.
type behaviour map[string]any

// behaving are the fields of an item whose hooks of a type do something.
func behaving(hookType hook.Type, b behaviour) map[string]any {
	return map[string]any{"hooks": map[hook.Type]behaviour{hookType: b}}
}

// records are all records so far.
func (h *traced) records() []trace.Record {
	h.t.Helper()
	records, err := h.file.Read()
	if err != nil {
		h.t.Fatal(err)
	}
	return records
}

// ofNamespace are the records about items of this test. The host looks at those that other tests have left, too.
func (h *traced) ofNamespace() []trace.Record {
	h.t.Helper()
	return slices.DeleteFunc(h.records(), func(r trace.Record) bool { return !strings.HasPrefix(r.Item, h.namespace+"/") })
}

// of are the records of a plugin about an item.
func (h *traced) of(by string, item *v1alpha1.DeployItem) []trace.Record {
	h.t.Helper()
	return slices.DeleteFunc(h.records(), func(r trace.Record) bool { return r.By != by || r.Item != item.Namespace+"/"+item.Name })
}

// count is how often a step of an item is in the trace of the plugin tracer.
func (h *traced) count(item *v1alpha1.DeployItem, step string) (n int) {
	h.t.Helper()
	for _, r := range h.of("tracer", item) {
		if r.Step == step {
			n++
		}
	}
	return n
}

// waitCount waits until a step of an item is so often in the trace of the plugin tracer.
func (h *traced) waitCount(item *v1alpha1.DeployItem, step string, atLeast int) {
	h.t.Helper()
	eventually(h.t, fmt.Sprintf("%s number %d of item %s", step, atLeast, item.Name), func(context.Context) (string, error) {
		if n := h.count(item, step); n < atLeast {
			return fmt.Sprintf("there were %d", n), nil
		}
		return "", nil
	})
}

// start creates an item and sets a job, and returns the item with it.
func start(t *testing.T, item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	t.Helper()
	create(t, item)
	setJob(t, item)
	return read(t, item)
}

// waitPhase waits until the job of an item that start has returned is finished, and checks the phase that it has come to.
func waitPhase(t *testing.T, item *v1alpha1.DeployItem, phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
	t.Helper()
	finished := waitFinished(t, item, item.Status.JobID)
	if finished.Status.Phase != phase {
		t.Fatalf("expected phase %s, but found %s", phase, describe(finished))
	}
	return finished
}

// waitLastError waits until the last error of an item says something.
func waitLastError(t *testing.T, item *v1alpha1.DeployItem, text string) *v1alpha1.DeployItem {
	t.Helper()
	return waitFor(t, item, fmt.Sprintf("with an error that says %q", text), func(i *v1alpha1.DeployItem) bool {
		return i.Status.LastError != nil && strings.Contains(i.Status.LastError.Message, text)
	})
}

// passTime waits until the host has called the plugin probe for some items, one after the other: time enough for what it does not do.
func passTime(t *testing.T, namespace string) {
	t.Helper()
	for range 3 {
		item := newItem(namespace, "", probeType, probeConfig(t.TempDir()))
		item.GenerateName = "other-"
		carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
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
