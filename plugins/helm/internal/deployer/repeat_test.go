package deployer_test

import (
	"context"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// TestInstallationIsRepeated: a failed installation is made again as a whole. There is no success before the hooks for
// the installation have done their work, and nothing is left of the failed attempt alone.
// Rule (helm.md#recovery): A failed installation is repeated as one.
func TestInstallationIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := func(fails string) object {
		return object{"hook": object{"events": "post-install", "fails": fails}}
	}
	first := chart("failinghook", charts.Version("1.0.0"),
		configMap("both", "", "data: {kept: a, dropped: b}"), configMap("dropped", ""))
	second := chart("failinghook", charts.Version("2.0.0"), configMap("both", "", "data: {kept: a}"))

	item := w.item(w.config(first, hook("reject")))
	for _, revisions := range [][]string{{"1 failed"}, {"1 failed", "2 failed"}} {
		plugintest.NewJob(item)
		w.mustRefuse(item, "post-install hook ConfigMap")
		w.mustHave(revisions...)
	}
	w.mustDeploy(item, w.config(second, hook("none")))
	w.mustHave("1 failed", "2 failed", "3 deployed")
	w.MustGet(configMaps, "shop-failinghook-hook") // the hook for the installation was run
	if w.Get(configMaps, "dropped") != nil {
		t.Error("an object of the failed attempt alone is left")
	}
	if data := w.data("both"); data["dropped"] != nil {
		t.Errorf("a field of the failed attempt alone is left: %v", data)
	}

	// From now on it is upgraded, whatever fails.
	w.Delete(configMaps, "shop-failinghook-hook")
	again := hook("none")
	again["greeting"] = "again"
	w.mustDeploy(item, w.config(second, again))
	w.mustHave("1 failed", "2 failed", "3 superseded", "4 deployed")
	if w.Get(configMaps, "shop-failinghook-hook") != nil {
		t.Error("the hook for the installation was run in an upgrade")
	}
	w.MustDelete(item)
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
