package deployer_test

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestCrashAtEachStep kills the plugin before each request that writes, each status that it saves and each result.
// Whoever comes next brings the job to its end: main has run once for it, with the state of the run before, and
// nothing is left but what is meant to be. An item goes on with its next job at the next step.
// Rule (container.md#jobs-and-errors): The image runs at most once per job, whichever step goes wrong.
func TestCrashAtEachStep(t *testing.T) {
	t.Parallel()
	for _, c := range []crash{
		{name: "count", args: "count", counts: 1},
		{name: "failure", before: true, args: "fail", fails: true, counts: 1},
		{name: "lost", before: true, args: "lose", fails: true},
		{name: "replaced", interrupted: true, args: "count", counts: 2},
		{name: "abort", interrupted: true, args: "hang", operation: plugintest.Abort},
		{name: "delete", interrupted: true, args: "count", operation: plugintest.Delete},
	} {
		for first := 1; first <= shares; first++ {
			t.Run(fmt.Sprintf("%s %d of %d", c.name, first, shares), func(t *testing.T) {
				t.Parallel()
				w, item, count := newWorld(t), (*landscaper.DeployItem)(nil), 0
				for n, struck := first, true; struck; n += shares {
					if item == nil || c.operation == plugintest.Delete {
						item = w.item()
					}
					struck = w.crash(&c, item, &count, n)
				}
				if c.operation != plugintest.Delete {
					w.discard(item)
				}
			})
		}
	}
}

// shares is how many worlds share the steps of a job.
const shares = 3

// crash is a job in which the plugin is killed.
type crash struct {
	name string
	// before: a job with "count" ends before it. interrupted: one with "hang" is under way when it begins.
	before, interrupted bool
	// args is what main does in it, and counts by how much the count grows then, also by an interrupted job.
	args   string
	counts int
	fails  bool
	// operation is Reconcile unless it says something else.
	operation plugintest.Operation
}

// crash kills the plugin at the nth step of a job, and tells whether there is one. count is that of the item's state.
func (w *world) crash(c *crash, item *landscaper.DeployItem, count *int, n int) (struck bool) {
	w.Helper()
	runs := len(w.node.ranIn())
	if c.before {
		if run := w.status(item).Run; run != nil {
			item.Annotations = map[string]string{acceptLoss: run.Name}
		}
		w.SetConfig(item, w.config("count"))
		*count++
		w.counts(item, *count)
		runs++
	}
	if c.interrupted {
		w.SetConfig(item, w.config("hang"))
		w.begin(item)
		runs++
		w.awaitRun(runs)
	}
	w.SetConfig(item, w.config(c.args))
	operation, left := cmp.Or(c.operation, plugintest.Reconcile), []string{"Secret result", "Secret state"}
	if operation == plugintest.Delete {
		left = nil
	}
	if operation != plugintest.Abort {
		plugintest.NewJob(item)
		runs++
	}
	_, struck = w.Disturb(operation, item, n, plugintest.Killed)
	result := w.Finish(operation, item)
	*count += c.counts
	switch {
	case c.fails != (result.Failed != nil):
		w.Fatalf("killed at step %d: found %s", n, result)
	case c.counts > 0 && !c.fails:
		w.mustCount(result, *count)
	}
	found := w.node.ranIn()
	if len(found) != runs {
		w.Fatalf("killed at step %d: expected %d runs, but found %d", n, runs, len(found))
	}
	for pod, times := range found {
		if times != 1 {
			w.Fatalf("killed at step %d: main has run %d times in %s", n, times, pod)
		}
	}
	w.mustHave(left...)
	return struck
}
