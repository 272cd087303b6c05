package deployer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// Rules of both modes, and those about the change from one to the other.

// TestWithoutRelease takes a chart through its life without a release.
func TestWithoutRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), object{"greeting": "one"}, withoutRelease))
	w.MustSucceed(item)
	w.mustGreet("one")
	w.mustHave()
	label := w.Get(configMaps, "shop-plain-greeting").GetLabels()["helm.deployer.landscaper.gardener.cloud/deployitem"]
	if label != "item" {
		t.Errorf("expected Landscaper's label with the name of the item, but found %q", label)
	}
	w.mustDoNothing(item)

	short := chart("plain", charts.Without("templates/settings.yaml"))
	w.mustDeploy(item, w.config(short, object{"greeting": "two"}, withoutRelease))
	w.mustGreet("two")
	w.mustHold("shop-plain-greeting")
	w.MustDelete(item)
	w.mustHold()
}

// TestStatusOfAnUnchangedItem: a job without work leaves the provider status as it was, so that the host writes no
// event.
// Rule (helm.md#unchanged-releases-and-drift): A job without work leaves the provider status as it was.
func TestStatusOfAnUnchangedItem(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		item := w.item(w.config(chart("plain"), nil))
		w.MustSucceed(item)
		before := string(item.Status.ProviderStatus.Raw)
		plugintest.NewJob(item)
		w.MustSucceed(item)
		if diff := cmp.Diff(before, string(item.Status.ProviderStatus.Raw)); diff != "" {
			w.Errorf("-want +got:\n%s", diff)
		}
	})
}

// TestExports reads values of the chart and of an object.
// Rule (helm.md#readiness-and-exports): Exports are read from values of the chart and from objects.
func TestExports(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		item := w.item(w.config(chart("plain"), object{"greeting": "one"}, object{
			"exports": object{"exports": []any{
				object{"key": "own", "jsonPath": ".Values.greeting"},
				object{"key": "of.the.chart", "jsonPath": ".Values.settings.colour"},
				object{
					"key": "of.the.object", "jsonPath": ".data.copies", "fromResource": w.reference("shop-plain-greeting"),
				},
			}},
		}))
		want := object{"of": object{"the": object{"chart": "blue", "object": "1"}}, "own": "one"}
		if diff := cmp.Diff(want, w.MustSucceed(item).Succeeded.Exports); diff != "" {
			w.Errorf("the exports: -want +got:\n%s", diff)
		}
		w.MustDelete(item)
	})
}

// TestModeIsKept: an item does not go from releases to objects or back.
// Rule (helm.md#without-a-release): `helmDeployment` of an existing item cannot be changed.
func TestModeIsKept(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		item := w.item(w.config(chart("plain"), nil))
		w.MustSucceed(item)
		w.setConfig(item, w.config(chart("plain"), nil, object{"helmDeployment": w.plain}))
		w.mustRefuse(item, "HelmDeploymentChanged", "helmDeployment", "delete the deploy item")
		w.MustDelete(item)
	})
}

// TestModeOfAReleaseThatWasNeverMade: a failure before there was a release does not bind the item to have one.
func TestModeOfAReleaseThatWasNeverMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("broken"), object{"failure": "fail"}))
	w.mustRefuse(item, charts.BrokenTemplate)
	w.mustHave()
	w.mustDeploy(item, w.config(chart("plain"), nil, withoutRelease))
	if o := w.MustGet(configMaps, "shop-plain-greeting"); o.GetLabels()[owner.Label] == "" {
		t.Errorf("expected an object of the item, but found %v", o)
	}
	w.MustDelete(item)
}
