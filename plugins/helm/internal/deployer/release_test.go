package deployer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

// TestRelease takes a release through its life.
// Rule (helm.md#deletion): A release is uninstalled with its history.
func TestRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), object{"greeting": "good morning"}))

	w.MustSucceed(item)
	installed := w.Requests.Take()
	once := w.Requests.AskedOnce()
	if len(installed)+once > 16 { // one of them once for a client, about the cluster
		t.Errorf("expected at most 16 requests to install two objects, but found %d and %v", once, installed)
	}
	w.mustHold("shop-plain-greeting", "shop-plain-settings")
	w.mustManage(item, "ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings")
	w.mustHave("1 deployed")

	plugintest.NewJob(item)
	w.MustSucceed(item)
	unchanged := w.Requests.Take()
	if once = w.Requests.AskedOnce() - once; len(unchanged)+once > 6 {
		t.Errorf("expected at most 6 requests of a job that finds nothing changed, but found %d and %v", once, unchanged)
	}
	if slices.ContainsFunc(unchanged, plugintest.IsWrite) {
		t.Errorf("expected no write without a change, but found %v", unchanged)
	}
	w.mustHave("1 deployed")

	w.mustDeploy(item, w.config(chart("plain"), object{"greeting": "good evening"}))
	w.mustHave("1 superseded", "2 deployed")
	w.mustGreet("good evening")

	plugintest.NewJob(item)
	for range 2 {
		w.Do(plugintest.ForceReconcile, item)
		w.mustHave("1 superseded", "2 superseded", "3 deployed")
	}

	w.MustDelete(item)
	w.mustHave()
	w.mustHold()
}

// TestTimeToUndo: an atomic operation is undone although it has used all the time for it.
// Rule (helm.md#helm-options): A part of the item's time is reserved for the undoing of an atomic operation.
func TestTimeToUndo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before    bool
		says      string
		revisions []string
	}{
		"install": {says: "has been uninstalled due to atomic being set"},
		"upgrade": {
			before: true, says: "has been rolled back due to atomic being set",
			revisions: []string{"1 superseded", "2 failed", "3 deployed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			atomic := options(object{"atomic": true}, "install", "upgrade")
			item := w.item(w.config(chart("plain"), nil, atomic))
			if c.before {
				w.MustSucceed(item)
			}
			w.setConfig(item, w.config(chart("workload", charts.Name("plain")), nil, atomic))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			w.MustFail(w.DoCall(ctx, plugintest.Reconcile, w.CallOf(item)), timedOut, "not ready within", c.says)
			w.mustHave(c.revisions...)
			if again := w.Get(configMaps, "shop-plain-greeting") != nil; again != c.before {
				t.Errorf("expected the objects of before: %t, but found %t", c.before, again)
			}
			w.MustDelete(item)
		})
	}
}

// away returns a namespace that does not exist yet.
func (w *world) away() string {
	away := w.Namespace + "-away"
	w.DeleteAfter(namespaces, away)
	return away
}

// TestRetryOfADeletion: a hook with a success in the job is not run again. The next job runs all.
// Rule (helm.md#recovery): A deletion runs no hook again after its success in the same job.
func TestRetryOfADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := w.away()
	notice := fmt.Sprintf(`, namespace: %s, annotations: {helm.sh/hook: pre-delete, helm.sh/hook-weight: "1"}`, away)
	item := w.item(w.config(chart("plain", hooked("backup", "post-install,pre-delete"), configMap("notice", notice)), nil))
	w.MustSucceed(item)
	backup := func() types.UID { return w.MustGet(configMaps, "backup").GetUID() }
	runs := []types.UID{backup()}
	for range 2 { // jobs
		began := landscaper.NewTime(time.Now().Truncate(time.Second))
		if last := w.MustGet(configMaps, "backup").GetCreationTimestamp(); !last.Time.Before(began.Time) {
			w.Eventually("another second", func() bool { return time.Now().Unix() > last.Unix() })
			began = landscaper.NewTime(time.Now().Truncate(time.Second))
		}
		item.Status.TransitionTimes = &landscaper.TransitionTimes{InitTime: &began}
		item.Status.Phase = landscaper.DeployItemPhaseInitDelete
		for range 3 { // calls
			w.MustFail(w.Do(plugintest.Delete, item), nil, away)
			item.Status.Phase = landscaper.DeployItemPhaseDeleting
			runs = append(runs, backup())
		}
	}
	if each := slices.Compact(slices.Clone(runs)); len(each) != 3 || each[1] != runs[1] || runs[3] != runs[1] ||
		runs[4] == runs[3] {
		t.Errorf("expected one run at the installation and in each job, but found %v", runs)
	}
	w.createNamespace(away)
	result := w.UntilDone(plugintest.Delete, item)
	if result.Succeeded == nil || backup() != runs[6] {
		t.Errorf("expected success without another run, but found %s", result)
	}
	w.mustWarn(result, "Uninstalled")
}

// TestOptionsReachHelm: each option is Helm's in its own operation, and in no other. The bounds of the timeout are in
// the tests of package releasejob.
// Rule (helm.md#helm-options): An option holds for its operation and for no other.
func TestOptionsReachHelm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mustOrder := func(action helm.Action, options helm.Options) {
		t.Helper()
		orders := w.orders.take()
		if len(orders) != 1 || orders[0].Action != action {
			t.Fatalf("expected one request to %s, but found %+v", action, orders)
		}
		if diff := cmp.Diff(options, orders[0].Options); diff != "" {
			t.Errorf("%s: -want +got:\n%s", action, diff)
		}
	}
	all := options(object{
		"atomic": true, "force": true, "skipSchemaValidation": true, "takeOwnership": true, "wait": true, "timeout": "7s",
	}, "install")
	item := w.item(w.config(chart("plain"), object{"greeting": "one"}, all))
	w.MustSucceed(item)
	mustOrder(helm.Install, helm.Options{
		Atomic: true, Force: true, SkipSchemaValidation: true, TakeOwnership: true, Wait: true, Timeout: 7 * time.Second,
	})
	w.mustDeploy(item, w.config(chart("plain"), object{"greeting": "two"}, all))
	mustOrder(helm.Upgrade, helm.Options{Timeout: 5 * time.Minute})
	taking := options(object{"takeOwnership": true, "timeout": "9s"}, "upgrade")
	w.mustDeploy(item, w.config(chart("plain"), object{"greeting": "three"}, taking))
	mustOrder(helm.Upgrade, helm.Options{TakeOwnership: true, Timeout: 9 * time.Second})
	w.setConfig(item, w.config(chart("plain"), nil, options(object{"wait": true, "timeout": "11s"}, "uninstall")))
	w.MustDelete(item)
	mustOrder(helm.Uninstall, helm.Options{Wait: true, Timeout: 11 * time.Second})
}

// TestTimeoutOfAHook: the option ends the wait for a hook that hangs, long before the item's time is up.
// Rule (helm.md#helm-options): A `timeout` ends the wait for a hook.
func TestTimeoutOfAHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("failinghook"), object{"hook": object{"fails": "hang"}},
		options(object{"timeout": "1s"}, "install")))
	w.MustFail(w.call(item), timedOut,
		"post-install hook", "shop-failinghook-hook", "failinghook/templates/hook.yaml", "not complete within 1s")
	w.mustHave("1 failed")
	w.MustDelete(item)
	w.mustHave()
}

// TestWait: with the option Helm waits, and says what for when its time is up. Without it no process is held meanwhile.
func TestWait(t *testing.T) {
	t.Parallel()
	claim := charts.File("templates/data.yaml", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n"+
		"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}\n")
	for name, c := range map[string]struct {
		chart object
		says  string
	}{
		// Rule (helm.md#helm-options): With `wait` Helm waits until objects are ready.
		"by Helm": {chart("workload"), "not ready within 1s: Service shop-workload, Deployment shop-workload"},
		// Rule (helm.md#helm-options): The error of a wait of Helm names the objects not ready, and no other line of its
		// log.
		"last state": {chart("plain", claim), "context deadline exceeded: PersistentVolumeClaim is not bound: %s/data"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(c.chart, nil, options(object{"wait": true, "timeout": "1s"}, "install")))
			w.MustFail(w.call(item), timedOut, strings.ReplaceAll(c.says, "%s", w.Namespace))
			w.mustHave("1 failed")
		})
	}
	// Rule (helm.md#helm-options): Without `wait` the deployer waits after Helm has finished.
	t.Run("by the deployer", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		item := w.item(w.config(chart("workload"), nil))
		w.mustWait(w.call(item), "Deployment "+w.Namespace+"/shop-workload")
		w.mustHave("1 deployed")
		w.MustDelete(item)
	})
}
