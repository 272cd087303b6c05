package deployer_test

import (
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// from has the following calls come from the host of an installation.
func (w *world) from(installation string) { w.Call.Installation = installation }

// mustBe checks the content of the ConfigMap "shared" and the installation that it is marked with.
func (w *world) mustBe(from, installation string) {
	w.Helper()
	o := w.MustGet(configMaps, "shared")
	if got := o.Object["data"].(object)["from"]; got != from || owner.Mark(o) != installation {
		w.Errorf("expected it to be from %s, marked with %s, but found %v, %s", from, installation, got, owner.Mark(o))
	}
}

// TestInstallations: deploy items of one name in two control planes do not take each other's objects, unless the user
// says so, and do not delete them.
func TestInstallations(t *testing.T) {
	t.Parallel()
	// Rule (manifest.md#managed-resources): An item does not take, overwrite or delete objects of another installation,
	// unless its user says so.
	for _, strategy := range []string{"update", "patch", "apply", "merge", "mergeOverwrite"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			itemFrom := func(from string) *landscaper.DeployItem {
				return w.item(with(config(w.configMap("shared", object{"from": from})), "updateStrategy", strategy))
			}
			w.from("one")
			a := itemFrom("a")
			w.mustSucceed(a)
			w.mustBe("a", "one")

			w.from("two")
			b := itemFrom("b")
			w.MustFail(w.call(b), plugintest.ConfigurationProblem, "OwnedElsewhere", "ConfigMap "+w.Namespace+"/shared",
				"of the installation one", `pergola.dev/take-over-from: "one"`)
			w.mustBe("a", "one")
			left := w.MustDelete(b)
			w.mustTell(left, "LeftOnTarget: ConfigMap "+w.Namespace+"/shared stays on the target: it belongs to the deploy item "+
				`"`+w.Namespace+`.item" of the installation one`)
			w.mustBe("a", "one")

			b = itemFrom("b")
			b.Annotations = map[string]string{owner.TakeOverAnnotation: "one"}
			taken := w.mustSucceed(b)
			if got := strings.Join(eventsOf(taken), ""); !strings.Contains(got, "TakenOver") || !strings.Contains(got, "of the installation one") {
				t.Errorf("expected an event about the takeover, but found %q", got)
			}
			if strategy != "merge" { // which overwrites nothing
				w.mustBe("b", "two")
			}
			w.from("one")
			plugintest.NewJob(a)
			w.MustFail(w.call(a), plugintest.ConfigurationProblem, "OwnedElsewhere", "of the installation two")
			w.MustDelete(a)
			if w.Get(configMaps, "shared") == nil {
				t.Error("the object of the other installation was deleted")
			}
		})
	}
}

// TestFallbackBetweenInstallations: the policy fallback protects the objects of items of the same name elsewhere.
// Rule (manifest.md#managed-resources): `fallback` protects objects of other installations.
func TestFallbackBetweenInstallations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.from("one")
	w.mustSucceed(w.item(config(w.configMap("shared", object{"from": "a"}))))
	w.from("two")
	b := w.item(configOf(entry(w.configMap("shared", object{"from": "b"}), object{"policy": "fallback"})))
	w.mustSucceed(b)
	w.mustBe("a", "one")
	w.MustDelete(b)
	w.mustBe("a", "one")
}

// TestRestoredElsewhere: an item that was restored with its status on another control plane goes on with its objects,
// and tells it.
// Rule (manifest.md#managed-resources): An item restored with its status on another control plane goes on with its
// objects.
func TestRestoredElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.from("one")
	item := w.item(config(w.configMap("shared", object{"from": "a"})))
	w.mustSucceed(item)
	w.from("two")
	deleted := item.DeepCopy()
	plugintest.NewJob(item)
	if got := strings.Join(eventsOf(w.mustSucceed(item)), ""); !strings.Contains(got, "TakenOver") {
		t.Errorf("expected an event about the takeover, but found %q", got)
	}
	w.mustBe("a", "two")
	plugintest.NewJob(item)
	w.mustTell(w.mustSucceed(item))

	w.Patch(configMaps, "shared", `{"metadata":{"annotations":{"pergola.dev/installation":"one"}}}`)
	w.MustDelete(deleted)
	if w.Get(configMaps, "shared") != nil {
		t.Error("the deletion on the new control plane has left the object")
	}
}

// TestMarkIsNoReasonToWrite: objects that were written before there were marks stay as they are.
// Rule (manifest.md#managed-resources): The mark of the installation is no reason to write an object.
func TestMarkIsNoReasonToWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("shared", object{"from": "a"})))
	w.mustSucceed(item)
	w.from("one")
	w.Requests.Take()
	for range 2 {
		plugintest.NewJob(item)
		w.mustSucceed(item)
	}
	if writes := w.Requests.Writes(); len(writes) > 0 {
		t.Errorf("an unchanged object was written: %q", writes)
	}
	w.mustBe("a", "")
	w.SetConfig(item, config(w.configMap("shared", object{"from": "b"})))
	plugintest.NewJob(item)
	w.mustSucceed(item)
	w.mustBe("b", "one")
}
