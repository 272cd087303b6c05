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
