package deployer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

// The plugin is killed right before or right after a write of Helm's storage.
var (
	beforeStorageWrite = plugintest.Fault{Name: "killed before", Path: "/secrets", Killed: true}
	afterStorageWrite  = plugintest.Fault{Name: "killed after", Path: "/secrets", Killed: true, Done: true}
)

// TestCrashAtEachStep kills the plugin before each request that writes, each status that it saves and each result.
// The next try ends with a clean release, or none after a deletion.
// Rule (helm.md#recovery): An interruption at each step leaves nothing behind, and the next attempt goes on.
func TestCrashAtEachStep(t *testing.T) {
	t.Parallel()
	old := configMap("shop-old", "")
	failing := func(how string, more ...object) func(*world) object {
		return func(w *world) object {
			return w.config(chart("failinghook"), object{"hook": object{"fails": how}}, more...)
		}
	}
	few := charts.File("values.yaml", `
greeting: hello
jobs: {enabled: false}
hooks:
  prepare: {events: "pre-install,pre-upgrade", weight: 0, deletePolicy: before-hook-creation}
  announce: {events: post-install, weight: 0, deletePolicy: ""}
  refresh: {events: "post-upgrade,post-rollback", weight: 0, deletePolicy: before-hook-creation}
`)
	of := func(name string, opts ...charts.Option) func(*world) object {
		return func(w *world) object { return w.config(chart(name, opts...), nil) }
	}
	atomic := options(object{"atomic": true, "timeout": "20s"}, "install", "upgrade")
	for _, c := range []crash{
		{
			name: "install", reason: "an upgrade would not run the hooks of an installation",
			job: of("hooks", few), leaves: "shop-hooks-announce",
		},
		{
			name: "install after one that has failed", reason: "no revision is deployed at any time before the end",
			before: failing("reject"), job: failing("none"),
		},
		{
			name: "atomic install", reason: "what was installed is uninstalled",
			job: failing("reject", atomic), mended: failing("none", atomic),
		},
		{
			name: "upgrade", reason: "old revisions and objects are removed, and hooks write the status again",
			before: of("hooks", few, old), twice: true, job: of("hooks", few),
		},
		{
			name: "atomic upgrade", reason: "the rollback has a revision of its own",
			before: failing("none", atomic), job: failing("reject", atomic), mended: failing("none", atomic),
		},
		{
			name: "uninstall", reason: "revisions are removed one by one",
			before: of("plain", old), job: of("plain"), deletes: true,
		},
	} {
		for first := 1; first <= shares; first++ {
			t.Run(fmt.Sprintf("%s %d of %d", c.name, first, shares), func(t *testing.T) {
				t.Parallel()
				for n, struck := first, true; struck; n += shares {
					w := newWorld(t)
					if c.twice {
						w.Configure(object{"maxHistory": 2})
					}
					struck = w.crash(&c, n)
				}
			})
		}
	}
}

// shares is how many tests share the steps of a job.
const shares = 2

// crash is a job in which the plugin is killed.
type crash struct {
	name, reason string
	// before is the configuration of the job before it, which may fail; nil for none. twice: there is a third one, so
	// that the history is full.
	before func(*world) object
	twice  bool
	// job is the configuration of the job. With a mended one it fails, and succeeds with that then.
	job, mended func(*world) object
	// deletes: the item is deleted, after the job.
	deletes bool
	// leaves is the object of a hook for the installation: it must have been run, whenever the plugin was killed.
	leaves string
}

// crash kills the plugin at the nth step of a job, and tells whether there is one.
func (w *world) crash(c *crash, n int) (struck bool) {
	w.Helper()
	item := w.item(c.job(w))
	if c.before != nil {
		w.setConfig(item, c.before(w))
		w.UntilDone(plugintest.Reconcile, item)
		if c.twice {
			plugintest.NewJob(item)
			w.UntilDone(plugintest.ForceReconcile, item)
		}
		w.setConfig(item, c.job(w))
	}
	operation := plugintest.Reconcile
	if c.deletes {
		w.MustSucceed(item)
		operation, item.Status.Phase = plugintest.Delete, landscaper.DeployItemPhaseInitDelete
	}
	_, struck = w.Disturb(operation, item, n, plugintest.Killed)
	if c.deletes {
		w.MustDelete(item)
		w.mustHave()
		w.mustHold()
		return struck
	}
	if c.mended != nil {
		// The job fails again, but not for another operation; once the chart is mended, it goes on.
		result := w.call(item)
		if result.Failed == nil || strings.Contains(result.String(), "another operation") {
			w.Fatalf("%s: killed at step %d: expected the failure of the hook, but found: %s", c.reason, n, result)
		}
		w.setConfig(item, c.mended(w))
	}
	isPending := func(revision string) bool { return strings.Contains(revision, "pending-") }
	if slices.ContainsFunc(w.revisions("shop"), isPending) {
		w.mustWarn(w.call(item), "Recovered", "of interrupted operations")
	}
	w.MustSucceed(item)
	w.mustBeClean(item)
	if c.leaves != "" && w.Get(configMaps, c.leaves) == nil {
		w.Errorf("%s: killed at step %d: there is no %s among %v", c.reason, n, c.leaves, w.Names(configMaps, ""))
	}
	if w.Get(configMaps, "shop-old") != nil {
		w.Errorf("%s: killed at step %d: what only an earlier chart had is left", c.reason, n)
	}
	return struck
}

// TestDeletionAfterACrash deletes an item whose release was never finished. Helm itself refuses to uninstall what is in
// progress.
// Rule (helm.md#recovery): A deletion after a crash removes a release that was never finished.
func TestDeletionAfterACrash(t *testing.T) {
	t.Parallel()
	for name, deployed := range map[string]bool{"in the installation": false, "in an upgrade": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), object{"greeting": "one"}))
			if deployed {
				w.MustSucceed(item)
				w.setConfig(item, w.config(chart("plain"), object{"greeting": "two"}))
			}
			w.Disturb(plugintest.Reconcile, item, 1, afterStorageWrite)
			w.Restart()
			w.MustDelete(item)
			w.mustHave()
			w.mustHold()
		})
	}
}
