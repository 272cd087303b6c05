package deployer_test

import (
	"context"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// TestInstallationIsRepeated: an installation that has failed is made again as a whole. Nothing is reported as a
// success before the hooks for the installation have done their work, and nothing is left of what only the failed
// attempt had.
// Rule (helm.md#recovery): A failed installation is repeated as one.
func TestInstallationIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := func(fails string) object {
		return object{"hook": object{"events": "post-install", "fails": fails}}
	}
	first := chart("failinghook", charts.Version("1.0.0"),
		charts.File("templates/field.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: both}\ndata: {kept: a, dropped: b}\n"),
		charts.File("templates/object.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dropped}\n"))
	second := chart("failinghook", charts.Version("2.0.0"),
		charts.File("templates/field.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: both}\ndata: {kept: a}\n"))

	item := w.item(w.config(first, hook("reject")))
	for _, revisions := range [][]string{{"1 failed"}, {"1 failed", "2 failed"}} {
		plugintest.NewJob(item)
		w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "post-install hook ConfigMap")
		w.mustHave(revisions...)
	}
	w.setConfig(item, w.config(second, hook("none")))
	w.MustSucceed(item)
	w.mustHave("1 failed", "2 failed", "3 deployed")
	if w.Get(configMaps, "shop-failinghook-hook") == nil {
		t.Error("the hook for the installation was not run")
	}
	if w.Get(configMaps, "dropped") != nil {
		t.Error("an object of the failed attempt alone is left")
	}
	if data := w.Get(configMaps, "both").Object["data"].(object); data["dropped"] != nil {
		t.Errorf("a field of the failed attempt alone is left: %v", data)
	}

	// From now on it is upgraded, whatever fails.
	w.Delete(configMaps, "shop-failinghook-hook")
	w.setConfig(item, w.config(second, hook("none"), object{"values": object{"greeting": "again", "hook": object{"events": "post-install", "fails": "none"}}}))
	w.MustSucceed(item)
	w.mustHave("1 failed", "2 failed", "3 superseded", "4 deployed")
	if w.Get(configMaps, "shop-failinghook-hook") != nil {
		t.Error("the hook for the installation was run in an upgrade")
	}
	w.MustDelete(item)
}

// TestTimeToUndo: an atomic operation is undone although it has had all the time that it could have.
// Rule (helm.md#helm-options): A part of the item's time is reserved for the undoing of an atomic operation.
func TestTimeToUndo(t *testing.T) {
	t.Parallel()
	atomic := object{"helmDeploymentConfig": object{"install": object{"atomic": true}, "upgrade": object{"atomic": true}}}
	reconcile := func(w *world, item *landscaper.DeployItem) *sdktest.Result {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		return w.DoCall(ctx, plugintest.Reconcile, w.CallOf(item))
	}
	timeout := []landscaper.ErrorCode{landscaper.ErrorTimeout}
	t.Run("install", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		item := w.item(w.config(chart("workload"), nil, atomic))
		w.MustFail(reconcile(w, item), timeout, "not ready within", "has been uninstalled due to atomic being set")
		w.mustHave()
		w.MustDelete(item)
	})
	t.Run("upgrade", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		item := w.item(w.config(chart("plain"), nil, atomic))
		w.MustSucceed(item)
		w.setConfig(item, w.config(chart("workload", charts.Name("plain")), nil, atomic))
		w.MustFail(reconcile(w, item), timeout, "not ready within", "has been rolled back due to atomic being set")
		w.mustHave("1 superseded", "2 failed", "3 deployed")
		if w.Get(configMaps, "shop-plain-greeting") == nil {
			t.Error("what was deployed before is not there again")
		}
		w.MustDelete(item)
	})
}

// TestNoTimeAtAll: an item without a timeout gives Helm's waits Helm's own.
// Rule (helm.md#helm-options): For an item without a timeout Helm waits five minutes.
func TestNoTimeAtAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), nil, options("install", object{"timeout": "none"})))
	w.MustSucceed(item)
	if got := w.orders.take()[0].Options.Timeout; got != 5*time.Minute {
		t.Errorf("expected five minutes for an installation, but found %s", got)
	}
	w.MustDelete(item)
	if got := w.orders.take()[0].Options.Timeout; got != 5*time.Minute {
		t.Errorf("expected five minutes for a deletion, but found %s", got)
	}
}

// TestOtherReleaseCannotBeMade: a release stays as long as the one that is to take its place cannot be made.
// Rule (helm.md#releases): The old release stays while the new one cannot be made.
func TestOtherReleaseCannotBeMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		chart  object
		values object
		says   string
	}{
		"taken":  {reason: "another item has it", chart: chart("plain"), says: "it belongs to the deploy item"},
		"render": {reason: "a template fails", chart: chart("broken"), values: object{"failure": "fail"}, says: charts.BrokenTemplate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), nil))
			w.MustSucceed(item)
			other := w.itemOf("other", w.config(chart("plain"), nil, object{"name": "stock"}))
			if name == "taken" {
				w.MustSucceed(other)
			}
			w.setConfig(item, w.config(c.chart, c.values, object{"name": "stock"}))
			w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, c.says)
			w.mustHave("1 deployed")
			if w.Get(configMaps, "shop-plain-greeting") == nil {
				t.Errorf("%s: the objects of the release are gone", c.reason)
			}
			w.MustDelete(item)
		})
	}
}

// TestModeOfAReleaseThatWasNeverMade: what has failed before there was a release does not bind the item to have one.
func TestModeOfAReleaseThatWasNeverMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("broken"), object{"failure": "fail"}))
	w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, charts.BrokenTemplate)
	w.mustHave()
	w.setConfig(item, w.config(chart("plain"), nil, withoutRelease))
	w.MustSucceed(item)
	if o := w.Get(configMaps, "shop-plain-greeting"); o == nil || o.GetLabels()[owner.Label] == "" {
		t.Errorf("expected an object of the item, but found %v", o)
	}
	w.MustDelete(item)
}
