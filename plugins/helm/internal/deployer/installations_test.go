package deployer_test

import (
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// TestRenamedItem: an item of the same chart has a release before its holder is deleted, without an outage. One of
// another chart has no claim.
func TestRenamedItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	claimOf := func(item *landscaper.DeployItem) sdk.Claim {
		result := w.mustRefuse(item, "ReleaseTaken")
		claim := result.Failed.Errors[0].Held
		if !result.Failed.Errors[0].Heals || claim.DeployItem != w.Namespace+".before" {
			t.Errorf("expected the holder, but found %+v", result.Failed.Errors)
		}
		claim.DeployItem = w.Namespace + "." + item.Name
		return claim
	}
	before := w.itemOf("before", w.config(chart("plain"), object{"greeting": "a"}))
	w.MustSucceed(before)
	other := claimOf(w.itemOf("other", w.config(chart("plain", charts.Name("other")), nil)))
	after := w.itemOf("after", w.config(chart("plain"), object{"greeting": "a"}))
	claim := claimOf(after)
	uid := w.MustGet(configMaps, "shop-plain-greeting").GetUID()

	w.Call.Claims = []sdk.Claim{other, claim}
	w.mustWarn(w.MustDelete(before), "LeftOnTarget", claim.DeployItem)
	w.Call.Claims = nil
	plugintest.NewJob(after)
	w.mustWarn(w.MustSucceed(after), "TakenOver", w.Namespace+".before")
	w.mustHave("1 deployed")
	if w.MustGet(configMaps, "shop-plain-greeting").GetUID() != uid {
		t.Error("expected the same object")
	}
	w.MustDelete(after)
	w.mustHave()
	if w.Get(configMaps, "shop-plain-greeting") != nil {
		t.Error("expected the object to go with its item")
	}
}

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
