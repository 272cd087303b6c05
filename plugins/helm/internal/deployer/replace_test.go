package deployer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/test/charts"
)

// orders is an object that the chart keeps.
var orders = charts.File("templates/orders.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: orders\n"+
	"  annotations: {helm.sh/resource-policy: keep}\n")

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
			opts:   []charts.Option{charts.File("templates/bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not-A-Name}\n")},
			config: named, says: "Not-A-Name",
		},
		"missing kind": {
			opts:   []charts.Option{charts.File("templates/no.yaml", "apiVersion: no.such/v1\nkind: Thing\nmetadata: {name: thing}\n")},
			config: named, passes: true, says: "no matches for kind",
		},
		"missing namespace": {config: object{"namespace": "no-such-namespace"}, passes: true, says: "set createNamespace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), nil))
			w.MustSucceed(item)
			w.Create(configMaps, object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "ledger"}})
			w.setConfig(item, w.config(chart("plain", c.opts...), nil, c.config))
			changes, err := w.Plugin.Diff(w.Context(), w.CallOf(item))
			if err != nil || len(changes) != 1 || changes[0].Action != sdk.ActionFail || !strings.Contains(changes[0].Note, c.says) {
				t.Errorf("expected one change that fails, but found %v, %v", changes, err)
			}
			result := w.Do(plugintest.Reconcile, item)
			if c.passes {
				w.MustFail(result, nil, c.says, "release "+w.Namespace+"/shop stays")
			} else {
				w.MustFail(result, plugintest.ConfigurationProblem, c.says, "release "+w.Namespace+"/shop stays")
			}
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
	if said := w.mustWarn(w.Do(plugintest.Reconcile, item), "TakenOver"); !strings.Contains(said, "/stock now") {
		t.Errorf("expected who has the object now, but found %q", said)
	}
	w.MustSucceed(item)
	if diff := cmp.Diff([]string{"1 deployed"}, w.revisions("stock")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	w.mustHave()
	o := w.MustGet(configMaps, "orders")
	if o.GetUID() != uid || o.Object["data"].(object)["count"] != "17" || o.GetAnnotations()["meta.helm.sh/release-name"] != "stock" {
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
	w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, `chart "plain"`, `chart "stock"`, "takeOwnership")
	w.mustGreet("one")
	w.MustDelete(item)
	w.mustGreet("one")

	item = w.item(w.config(chart("plain"), nil))
	if said := w.mustWarn(w.MustSucceed(item), "TakenOver"); !strings.Contains(said, "belonged to no deploy item") {
		t.Errorf("expected that the release is taken over, but found %q", said)
	}
}

// TestDeletionWithoutRecord: what nothing was saved of is deleted if the release says that it is the item's.
// Rule (helm.md#deletion): A deletion without provider status looks at the release.
func TestDeletionWithoutRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), nil))
	w.MustSucceed(item)
	other := w.itemOf("other", w.config(chart("plain"), nil))
	if said := w.mustWarn(w.MustDelete(other), "LeftOnTarget"); !strings.Contains(said, "no record") {
		t.Errorf("expected that nothing is known, but found %q", said)
	}
	w.mustGreet("hello")
	item.Status.ProviderStatus = nil
	w.MustDelete(item)
	w.mustHave()
	w.mustGreet(nil)
}

// TestJobWithoutRecord: an item of which nothing is saved any more goes on with the release of its name, which bears its
// label; one that it had under another name stays.
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
	if got := w.revisions("shop"); !slices.Equal(got, []string{"1 deployed"}) {
		t.Errorf("expected no other revision, but found %v", got)
	}
	w.mustGreet("a")
	item.Status.ProviderStatus = nil
	w.setConfig(item, w.config(chart("plain"), object{"greeting": "b"}))
	w.MustSucceed(item)
	w.mustGreet("b")
	if got := w.revisions("shop"); !slices.Equal(got, []string{"1 superseded", "2 deployed"}) {
		t.Errorf("expected an upgrade, but found %v", got)
	}
	item.Status.ProviderStatus = nil
	other := charts.File("templates/greeting.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n")
	w.setConfig(item, w.config(chart("plain", other), nil, object{"name": "renamed"}))
	w.MustSucceed(item)
	if got := w.revisions("shop"); len(got) != 2 {
		t.Errorf("expected that the release of before stays, but found %v", got)
	}
}
