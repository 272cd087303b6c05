package deployer_test

import (
	"context"
	"fmt"
	"testing"

	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// TestCrashAtEachStep kills the plugin before and after each request that writes and each status that it saves. Whoever comes next brings the
// job to its end: main has run once for it, with the state of the run before, and nothing is left but what is meant to be.
func TestCrashAtEachStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		args   string
		// before are jobs that come first, by what main does in them.
		before []string
		// interrupted is what main does in a job that is under way when the one of the test begins; empty for none.
		interrupted string
		deletes     bool
		aborts      bool
		// runs is how often main has run in the end, over all Pods, and count what it exports then; 0 for nothing.
		runs, count int
		left        []string
	}{
		"first":  {reason: "nothing is there", args: "count", runs: 1, count: 1, left: []string{"Secret result", "Secret state"}},
		"second": {reason: "there is a state", args: "count", before: []string{"count"}, runs: 2, count: 2, left: []string{"Secret result", "Secret state"}},
		"after a failure": {
			reason: "its state counts as well", args: "count", before: []string{"fail"}, runs: 2, count: 2, left: []string{"Secret result", "Secret state"},
		},
		"failure": {reason: "it is not tried again", args: "fail", runs: 1, left: []string{"Secret result", "Secret state"}},
		"lost":    {reason: "the state of before stays", args: "lose", before: []string{"count"}, runs: 2, left: []string{"Secret result", "Secret state"}},
		"replaced": {
			reason: "the Pod of the job before is stopped first", args: "count", interrupted: "hang", runs: 2, count: 2,
			left: []string{"Secret result", "Secret state"},
		},
		"abort":  {reason: "the Pod is stopped", args: "hang", interrupted: "hang", aborts: true, runs: 1, left: []string{"Secret result", "Secret state"}},
		"delete": {reason: "main is run once more", args: "count", before: []string{"count"}, deletes: true, runs: 2},
		"delete interrupts": {
			reason: "a job is under way", args: "count", interrupted: "hang", deletes: true, runs: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, after := range []bool{false, true} {
				for n := 0; ; n++ {
					item, earlier := w.item(c.args), len(w.node.ranIn())
					for _, args := range c.before {
						w.setConfig(item, w.config(args))
						newJob(item)
						w.finish(item, w.plugin.Reconcile)
					}
					if c.interrupted != "" {
						w.setConfig(item, w.config(c.interrupted))
						newJob(item)
						w.call(item, w.plugin.Reconcile)
						w.awaitRun(earlier + 1)
					}
					w.setConfig(item, w.config(c.args))
					if !c.aborts {
						newJob(item)
					}
					operation := func() func(context.Context, sdktest.Call) *sdktest.Result {
						switch {
						case c.deletes:
							return w.plugin.Delete
						case c.aborts:
							return w.plugin.Abort
						default:
							return w.plugin.Reconcile
						}
					}
					w.faults.kill(n, after)
					w.untilDead(item, operation())
					killed := w.faults.revive()
					w.restart(nil)
					result := w.finish(item, operation())
					at := fmt.Sprintf("%s: killed at step %d, after its effect: %t", c.reason, n, after)
					w.check(at, result, c.count, c.args == "fail" || c.args == "lose")
					runs := w.node.ranIn()
					if len(runs) != earlier+c.runs {
						t.Fatalf("%s: expected %d runs, but found %d", at, c.runs, len(runs)-earlier)
					}
					for pod, times := range runs {
						if times != 1 {
							t.Fatalf("%s: main has run %d times in %s", at, times, pod)
						}
					}
					w.mustHave(c.left...)
					w.discard(item, c.deletes)
					if !killed {
						t.Logf("killed at %d steps, after their effect: %t", n, after)
						break
					}
				}
			}
		})
	}
}

// untilDead calls the plugin until it is killed, or the job is over.
func (w *world) untilDead(item *landscaper.DeployItem, operation func(context.Context, sdktest.Call) *sdktest.Result) {
	w.Helper()
	for !w.faults.isDead() {
		result := w.call(item, operation)
		if !w.faults.isDead() && isOver(result) {
			return
		}
	}
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
		newJob(item)
		if result := w.finish(item, w.plugin.Delete); result.Failed != nil {
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
