package deployer_test

import (
	"fmt"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// TestCrashAtEachStep kills the plugin before each request that writes, each status that it saves and each result.
// Whoever comes next brings the job to its end: main has run once for it, with the state of the run before, and
// nothing is left but what is meant to be.
// Rule (container.md#jobs-and-errors): The image runs at most once per job, whichever step goes wrong.
func TestCrashAtEachStep(t *testing.T) {
	t.Parallel()
	kept := []string{"Secret result", "Secret state"}
	for _, c := range []crash{
		{name: "count", reason: "there is a state", args: "count", before: "count", runs: 2, count: 2, left: kept},
		{name: "failure", reason: "it is not tried again", args: "fail", runs: 1, left: kept},
		{name: "lost", reason: "the state of before stays", args: "lose", before: "count", runs: 2, left: kept},
		{
			name: "replaced", reason: "the Pod of the job before is stopped first",
			args: "count", interrupted: "hang", runs: 2, count: 2, left: kept,
		},
		{
			name: "abort", reason: "the Pod is stopped",
			args: "hang", interrupted: "hang", operation: plugintest.Abort, runs: 1, left: kept,
		},
		{
			name: "delete", reason: "main is run once more",
			args: "count", interrupted: "hang", operation: plugintest.Delete, runs: 2,
		},
	} {
		for first := 1; first <= shares; first++ {
			t.Run(fmt.Sprintf("%s %d of %d", c.name, first, shares), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				for n, struck := first, true; struck; n += shares {
					struck = w.crash(&c, n)
				}
			})
		}
	}
}

// shares is how many worlds share the steps of a job.
const shares = 3

// crash is a job in which the plugin is killed.
type crash struct {
	name, reason string
	// args is what main does in it.
	args string
	// before is what main does in a job that has ended before, and interrupted in one that is under way when this one
	// begins; empty for none.
	before, interrupted string
	// operation is Reconcile unless it says something else.
	operation plugintest.Operation
	// runs is how often main has run in the end, over all Pods, and count what it exports then; 0 for nothing.
	runs, count int
	left        []string
}

// crash kills the plugin at the nth step of a job, and tells whether there is one.
func (w *world) crash(c *crash, n int) (struck bool) {
	w.Helper()
	item, earlier := w.item(c.args), len(w.node.ranIn())
	if c.before != "" {
		w.SetConfig(item, w.config(c.before))
		w.Finish(plugintest.Reconcile, item)
	}
	if c.interrupted != "" {
		w.SetConfig(item, w.config(c.interrupted))
		w.Do(plugintest.Reconcile, item)
		w.awaitRun(earlier + 1)
	}
	w.SetConfig(item, w.config(c.args))
	operation := c.operation
	if operation == nil {
		operation = plugintest.Reconcile
	}
	if c.name != "abort" {
		plugintest.NewJob(item)
	}
	_, struck = w.Disturb(operation, item, n, plugintest.Killed)
	result := w.Finish(operation, item)
	at := fmt.Sprintf("%s: killed at step %d", c.reason, n)
	w.check(at, result, c.count, c.args == "fail" || c.args == "lose")
	runs := w.node.ranIn()
	if len(runs) != earlier+c.runs {
		w.Fatalf("%s: expected %d runs, but found %d", at, c.runs, len(runs)-earlier)
	}
	for pod, times := range runs {
		if times != 1 {
			w.Fatalf("%s: main has run %d times in %s", at, times, pod)
		}
	}
	w.mustHave(c.left...)
	if c.args == "fail" { // its state counts as well
		w.SetConfig(item, w.config("count"))
		if found := fmt.Sprint(w.succeed(item)["count"]); found != "2" {
			w.Errorf("%s: expected count 2 after the failure, but found %s", at, found)
		}
	}
	w.discard(item, c.name == "delete")
	return struck
}

func (w *world) check(at string, result *sdktest.Result, count int, fails bool) {
	w.Helper()
	switch {
	case fails != (result.Failed != nil):
		w.Fatalf("%s: found %s", at, result)
	case count > 0:
		if found := fmt.Sprint(w.exportsOf(result)["count"]); found != fmt.Sprint(count) {
			w.Fatalf("%s: expected count %d, but found %s", at, count, found)
		}
	}
}

// discard removes what is left of an item, unless that is gone.
func (w *world) discard(item *landscaper.DeployItem, gone bool) {
	w.Helper()
	if !gone {
		item.Annotations = map[string]string{"container.deployer.landscaper.gardener.cloud/force-cleanup": "true"}
		plugintest.NewJob(item)
		if result := w.Finish(plugintest.Delete, item); result.Failed != nil {
			w.Fatalf("clean up: %s", result)
		}
	}
	w.mustHave()
}

// awaitRun waits until main has run in so many Pods.
func (w *world) awaitRun(pods int) {
	w.Helper()
	w.eventually(fmt.Sprintf("main to run in %d Pods", pods), func() bool { return len(w.node.ranIn()) >= pods })
}
