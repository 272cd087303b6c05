package deployer_test

import (
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
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
