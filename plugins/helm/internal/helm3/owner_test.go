package helm3_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/test/charts"
)

const ledger = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ledger}\n" +
	"data: {currency: {{ .Values.currency | default \"EUR\" }}}\n"

// withLedger is a chart with an object that others may take.
var withLedger = charts.Pack("plain", charts.File("templates/ledger.yaml", ledger))

// failsAfter makes a hook that fails when all objects have been written.
var failsAfter = charts.File("templates/hook.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: Not-A-Name\n"+
	"  annotations: {helm.sh/hook: 'post-install,post-upgrade'}\n")

// release returns a request about another release than "shop".
func (w *world) release(name string, chart []byte, values fields) *helm.Request {
	w.Helper()
	r := w.request(chart, values)
	r.Release.Name = name
	return r
}

func (w *world) mustHear(want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, w.audience.hears()); diff != "" {
		w.Errorf("what the observer has heard: -want +got:\n%s", diff)
	}
}

// TestObjectOfAnotherRelease: what another release has taken over is neither changed nor deleted.
// Rule (helm.md#releases): An object taken over by another release is neither changed nor deleted.
func TestObjectOfAnotherRelease(t *testing.T) {
	t.Parallel()
	other := charts.Pack("plain", charts.Name("other"), charts.File("templates/ledger.yaml", ledger))
	without := charts.Pack("plain", charts.Version("2.0.0"))
	const left = "Left ledger b"
	for name, c := range map[string]struct {
		action helm.Action
		chart  []byte
		values fields
		takes  bool
		hears  string
		of     string
	}{
		"upgrade":                {helm.Upgrade, withLedger, fields{"currency": "USD"}, false, left, "b"},
		"upgrade that takes":     {helm.Upgrade, withLedger, nil, true, "TakenOver ledger b", "shop"},
		"upgrade that drops":     {helm.Upgrade, without, nil, false, left, "b"},
		"uninstallation":         {helm.Uninstall, nil, nil, false, left, "b"},
		"uninstallation, waited": {helm.Uninstall, nil, nil, true, left, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.mustRun(w.request(withLedger, nil))
			b := w.release("b", other, nil)
			b.Options.TakeOwnership = true
			w.mustRun(b)
			w.mustHear("TakenOver ledger shop")
			before := w.Get(configMaps, "ledger")
			r := w.request(c.chart, c.values)
			r.Action, r.Options.TakeOwnership, r.Options.Wait = c.action, c.takes, c.takes
			r.Known = []types.UID{before.GetUID()}
			w.mustRun(r)
			w.mustHear(c.hears)
			after := w.MustGet(configMaps, "ledger")
			if after.GetUID() != before.GetUID() || after.GetAnnotations()["meta.helm.sh/release-name"] != c.of {
				t.Errorf("expected the object of release %s, but found %v", c.of, after)
			}
			if got := after.Object["data"].(fields)["currency"]; got != "EUR" {
				t.Errorf("expected the data to stay, but found %v", got)
			}
		})
	}
}

// TestObjectOfDeployItem: the label of an item that has applied an object without a release counts more than the name
// of the release, until the release takes the object over.
// Rule (helm.md#releases): An object taken over by an item of another deployer is neither changed nor deleted.
func TestObjectOfDeployItem(t *testing.T) {
	t.Parallel()
	without := charts.Pack("plain", charts.Version("2.0.0"))
	const left, taken = "Left ledger shop.web", "TakenOver ledger shop.web"
	for name, c := range map[string]struct {
		action helm.Action
		chart  []byte
		takes  bool
		hears  string
	}{
		"upgrade":            {helm.Upgrade, withLedger, false, left},
		"upgrade that takes": {helm.Upgrade, withLedger, true, taken},
		"upgrade that drops": {helm.Upgrade, without, false, left},
		"uninstallation":     {helm.Uninstall, nil, false, left},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.mustRun(w.request(withLedger, nil))
			w.Patch(configMaps, "ledger", `{"metadata": {"annotations": {"pergola.dev/installation": "here"}, "labels": {
				"pergola.dev/deployitem": "shop.web", "manifest.deployer.landscaper.gardener.cloud/deployitem": "web"}}}`)
			before := w.Get(configMaps, "ledger")
			r := w.request(c.chart, nil)
			r.Action, r.Options.TakeOwnership, r.Known = c.action, c.takes, []types.UID{before.GetUID()}
			w.mustRun(r)
			w.mustHear(c.hears)
			after := w.MustGet(configMaps, "ledger")
			_, marked := after.GetLabels()["pergola.dev/deployitem"]
			_, landscapers := after.GetLabels()["manifest.deployer.landscaper.gardener.cloud/deployitem"]
			_, installed := after.GetAnnotations()["pergola.dev/installation"]
			if marked == c.takes || landscapers == c.takes || installed == c.takes {
				t.Errorf("expected the marks of the item to stay without a takeover only, but found %v and %v",
					after.GetLabels(), after.GetAnnotations())
			}
			if after.GetUID() != before.GetUID() {
				t.Error("expected the object to stay")
			}
		})
	}
}

// TestObjectThatNamesNoRelease: such an object is the release's only if the deploy item has made it.
// Rule (helm.md#releases): An object without the name of a release is the release's only if the item has made it.
func TestObjectThatNamesNoRelease(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]bool{"made by the item": true, "made by another client": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.mustRun(w.request(withLedger, nil))
			w.Patch(configMaps, "ledger", `{"metadata":{"annotations":null}}`)
			r := w.request(withLedger, fields{"currency": "USD"})
			r.Action = helm.Upgrade
			want := "EUR"
			if made {
				r.Known, want = []types.UID{w.Get(configMaps, "ledger").GetUID()}, "USD"
			}
			w.mustRun(r)
			if got := w.Get(configMaps, "ledger").Object["data"].(fields)["currency"]; got != want {
				t.Errorf("expected %s after the upgrade, but found %v", want, got)
			}
			w.Patch(configMaps, "ledger", `{"metadata":{"annotations":null}}`)
			r = w.request(nil, nil)
			r.Action = helm.Uninstall
			if made {
				r.Known = []types.UID{w.Get(configMaps, "ledger").GetUID()}
			}
			w.mustRun(r)
			if exists := w.Get(configMaps, "ledger") != nil; exists == made {
				t.Errorf("expected it to be deleted: %v, but it exists: %v", made, exists)
			}
		})
	}
}

// TestUndoing: an operation that has failed undoes what it has created, and not what was there before.
// Rule (helm.md#recovery): A failed operation of Helm undoes only its own objects.
func TestUndoing(t *testing.T) {
	t.Parallel()
	failing := charts.Pack("plain", charts.File("templates/ledger.yaml", ledger), failsAfter)
	for name, c := range map[string]struct {
		before []byte
		owner  string
		hears  []string
	}{
		"installation": {owner: "old", hears: []string{"NotUndone ledger shop", "TakenOver ledger old"}},
		"installation over its own": {
			owner: "shop", hears: []string{"NotUndone ledger shop", "TakenOver ledger shop"},
		},
		"upgrade": {before: plain, owner: "old", hears: []string{"NotUndone ledger shop", "TakenOver ledger old"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.before != nil {
				w.mustRun(w.request(c.before, nil))
			}
			w.Create(configMaps, fields{"apiVersion": "v1", "kind": "ConfigMap", "metadata": fields{
				"name": "ledger", "labels": fields{"app.kubernetes.io/managed-by": "Helm"}, "annotations": fields{
					"meta.helm.sh/release-name": c.owner, "meta.helm.sh/release-namespace": w.Namespace,
				},
			}, "data": fields{"balance": "17"}})
			r := w.request(failing, nil)
			r.Action, r.Options.Atomic, r.Options.TakeOwnership = helm.Upgrade, true, c.owner != "shop"
			if _, err := w.run(r); err == nil {
				t.Fatal("expected the hook to fail")
			}
			w.mustHear(c.hears...)
			if got := w.MustGet(configMaps, "ledger").Object["data"].(fields)["balance"]; got != "17" {
				t.Errorf("expected the object that was there before, but found the balance %v", got)
			}
			if created := w.Get(configMaps, "shop-plain-greeting") != nil; created != (c.before != nil) {
				t.Errorf("expected the created objects to be gone unless they were there before, but found %v", created)
			}
		})
	}
}
