package deployer_test

import (
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// TestReleaseOfAnotherInstallation: deploy items of one name in two control planes do not take each other's releases,
// unless the user says so, or one was restored from the other.
// Rule (helm.md#releases): An item does not take, change or delete a release of another installation, unless its user
// says so.
func TestReleaseOfAnotherInstallation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	greets := func(text string) *landscaper.DeployItem {
		return w.item(w.config(chart("plain"), object{"greeting": text}))
	}
	mustSay := func(result *sdktest.Result, part string) {
		t.Helper()
		w.mustWarn(result, "TakenOver", part)
	}
	w.Call.Installation = "one"
	a := greets("a")
	w.MustSucceed(a)
	restored := a.DeepCopy()

	w.Call.Installation = "two"
	b := greets("b")
	w.mustRefuse(b, "ReleaseTaken", `pergola.dev/take-over-from: "one"`)
	w.MustDelete(b)
	w.mustGreet("a")

	plugintest.NewJob(restored)
	mustSay(w.MustSucceed(restored), "of the installation one")
	w.Call.Installation = "one"
	plugintest.NewJob(a)
	w.mustRefuse(a, "ReleaseTaken", "of the installation two")
	w.MustDelete(a)
	w.mustGreet("a")

	c := greets("c")
	c.Annotations = map[string]string{owner.TakeOverAnnotation: "two"}
	mustSay(w.MustSucceed(c), "of the installation two")
	w.mustGreet("c")
	w.MustDelete(c)
}
