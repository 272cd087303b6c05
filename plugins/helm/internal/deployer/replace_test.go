package deployer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/test/charts"
)

// TestOtherRelease: an item whose release gets another name leaves nothing of the one before. The difference says that
// it is uninstalled.
// Rule (helm.md#releases): With another name the old release is uninstalled first.
func TestOtherRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), nil))
	w.MustSucceed(item)
	w.setConfig(item, w.config(chart("plain"), nil, object{"name": "market"}))
	w.mustChange(item, "create ConfigMap %s/market-plain-greeting", "create ConfigMap %s/market-plain-settings",
		"delete ConfigMap %s/shop-plain-greeting", "delete ConfigMap %s/shop-plain-settings", "delete Release %s/shop")
	w.MustSucceed(item)
	w.mustHave()
	w.mustHold("market-plain-greeting", "market-plain-settings")
	w.MustDelete(item)
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
		"taken": {reason: "another item has it", chart: chart("plain"), says: "it belongs to the deploy item"},
		"render": {
			reason: "a template fails", chart: chart("broken"), values: object{"failure": "fail"},
			says: charts.BrokenTemplate,
		},
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
			w.mustRefuse(item, c.says)
			w.mustHave("1 deployed")
			w.mustGreet("hello")
			if t.Failed() {
				t.Log(c.reason)
			}
			w.MustDelete(item)
		})
	}
}

// TestOtherReleaseIsTried: the release that runs stays if the target would refuse the one that is to take its place.
// Rule (helm.md#releases): A release stays as long as the target would refuse the next one.
func TestOtherReleaseIsTried(t *testing.T) {
	t.Parallel()
	named := object{"name": "stock"}
	for name, c := range map[string]struct {
		opts   []charts.Option
		config object
		// passes: the job is tried again.
		passes bool
		says   string
	}{
		"object of another release": {opts: []charts.Option{ledger}, config: named, says: "cannot be imported"},
		"refused object": {
			opts: []charts.Option{configMap("Not-A-Name", "")}, config: named, says: "Not-A-Name",
		},
		"missing kind": {
			opts: []charts.Option{charts.File("templates/no.yaml",
				"apiVersion: no.such/v1\nkind: Thing\nmetadata: {name: thing}\n")},
			config: named, passes: true, says: "no matches for kind",
		},
		"missing namespace": {config: object{"namespace": "no-such-namespace"}, passes: true, says: "set createNamespace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), nil))
			w.MustSucceed(item)
			w.create("ledger", nil)
			w.setConfig(item, w.config(chart("plain", c.opts...), nil, c.config))
			changes, err := w.Plugin.Diff(w.Context(), w.CallOf(item))
			if err != nil || len(changes) != 1 || changes[0].Action != sdk.ActionFail ||
				!strings.Contains(changes[0].Note, c.says) {
				t.Errorf("expected one change that fails, but found %v, %v", changes, err)
			}
			codes := configProblem
			if c.passes {
				codes = nil
			}
			w.MustFail(w.call(item), codes, c.says, "release "+w.Namespace+"/shop stays")
			w.mustHave("1 deployed")
			w.mustGreet("hello")
		})
	}
}

// TestOtherReleaseTakesItsPlace: what the former release keeps goes to the next one.
// Rule (helm.md#releases): The next release of an item takes the objects kept by the former one.
func TestOtherReleaseTakesItsPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain", orders), nil))
	w.MustSucceed(item)
	w.Patch(configMaps, "orders", `{"data":{"count":"17"}}`)
	uid := w.Get(configMaps, "orders").GetUID()
	w.setConfig(item, w.config(chart("plain", orders), nil, object{"name": "stock"}))
	w.mustWarn(w.call(item), "TakenOver", "/stock now")
	w.MustSucceed(item)
	if diff := cmp.Diff([]string{"1 deployed"}, w.revisions("stock")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	w.mustHave()
	o := w.MustGet(configMaps, "orders")
	if o.GetUID() != uid || w.data("orders")["count"] != "17" ||
		o.GetAnnotations()["meta.helm.sh/release-name"] != "stock" {
		t.Errorf("expected the object of the former release, but found %v", o.Object)
	}
}

// TestReleaseOfNobodyAndAnotherChart: a release that has the name by chance is not taken without the user's word.
// Rule (helm.md#releases): An item takes a release of no item only if it is of the same chart.
func TestReleaseOfNobodyAndAnotherChart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newHelmCLI(w)
	h.run("install", "shop", h.chartFile("plain"), "--set", "greeting=one")
	item := w.item(w.config(chart("plain", charts.Name("stock")), nil))
	w.mustRefuse(item, `chart "plain"`, `chart "stock"`, "takeOwnership")
	w.mustGreet("one")
	w.MustDelete(item)
	w.mustGreet("one")

	item = w.item(w.config(chart("plain"), nil))
	w.mustWarn(w.MustSucceed(item), "TakenOver", "belonged to no deploy item")
}

// TestDeletionWithoutRecord: what nothing was saved of is deleted if the release says that it is the item's.
// Rule (helm.md#deletion): A deletion without provider status looks at the release.
func TestDeletionWithoutRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), nil))
	w.MustSucceed(item)
	other := w.itemOf("other", w.config(chart("plain"), nil))
	w.mustWarn(w.MustDelete(other), "LeftOnTarget", "no record")
	w.mustGreet("hello")
	item.Status.ProviderStatus = nil
	w.MustDelete(item)
	w.mustHave()
	w.mustGreet(nil)
}

// TestJobWithoutRecord: an item without its provider status goes on with the release of its name and label; one of
// another name stays.
// Rule (backup.md#items-without-their-status): A Helm release goes on without the item's provider status, and is
// uninstalled with the item.
func TestJobWithoutRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), object{"greeting": "a"}))
	w.MustSucceed(item)
	item.Status.ProviderStatus = nil
	plugintest.NewJob(item)
	w.MustSucceed(item)
	w.mustHave("1 deployed")
	w.mustGreet("a")
	item.Status.ProviderStatus = nil
	w.mustDeploy(item, w.config(chart("plain"), object{"greeting": "b"}))
	w.mustGreet("b")
	w.mustHave("1 superseded", "2 deployed")
	item.Status.ProviderStatus = nil
	w.mustDeploy(item, w.config(chart("plain", charts.Name("other")), nil, object{"name": "renamed"}))
	w.mustHave("1 superseded", "2 deployed")
}

// TestReleaseOfAnotherItem: two items do not fight over one release.
// Rule (helm.md#releases): An item does not take the release of another item.
func TestReleaseOfAnotherItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.itemOf("one", w.config(chart("plain"), object{"greeting": "one"}))
	w.MustSucceed(one)
	two := w.itemOf("two", w.config(chart("plain"), object{"greeting": "two"}))
	w.mustRefuse(two, "shop", w.Namespace+".one")
	w.mustGreet("one")
	w.MustDelete(two)
	w.mustGreet("one")
	w.MustDelete(one)
}
