package deployer_test

import (
	"slices"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

// mustKeepLedger checks that the object of release b is as that has made it, with what others have put there.
func (w *world) mustKeepLedger(uid any) {
	w.Helper()
	o := w.MustGet(configMaps, "ledger")
	if o.GetUID() != uid || o.GetAnnotations()["meta.helm.sh/release-name"] != "b" ||
		o.Object["data"].(object)["balance"] != "17" {
		w.Errorf("expected the object of release b, but found %v", o.Object)
	}
}

// TestObjectThatAnotherReleaseHasTaken: it is not repaired, not updated and not deleted, and the item says so.
// Rule (helm.md#releases): An object taken over by another release is no drift.
func TestObjectThatAnotherReleaseHasTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.itemOf("a", w.config(chart("plain", ledger), nil))
	w.MustSucceed(a)
	b := w.itemOf("b", w.config(chart("plain", charts.Name("other"), ledger), nil, object{"name": "b"}, takes))
	w.mustWarn(w.MustSucceed(b), "TakenOver", "release "+w.Namespace+"/shop")
	w.Patch(configMaps, "ledger", `{"data":{"balance":"17","currency":"USD"}}`)
	uid := w.Get(configMaps, "ledger").GetUID()

	plugintest.NewJob(a)
	w.mustWarn(w.MustSucceed(a), "LeftOnTarget", "belongs to release "+w.Namespace+"/b")
	w.mustHave("1 deployed")
	w.mustKeepLedger(uid)
	if slices.Contains(w.managed(a), "ConfigMap ledger") {
		t.Errorf("expected that the item does not manage it any more, but found %v", w.managed(a))
	}

	w.mustDeploy(a, w.config(chart("plain", charts.Version("2.0.0")), nil))
	w.mustHave("1 superseded", "2 deployed")
	w.mustKeepLedger(uid)

	w.MustDelete(a)
	w.mustHave()
	w.mustKeepLedger(uid)
	w.MustDelete(b)
	if w.Get(configMaps, "ledger") != nil {
		t.Error("expected the object to go with its release")
	}
}

// TestDeletionLeavesObjectOfAnotherRelease: the inventory has the object, which another release has taken since.
func TestDeletionLeavesObjectOfAnotherRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.itemOf("a", w.config(chart("plain", ledger), nil))
	w.MustSucceed(a)
	b := w.itemOf("b", w.config(chart("plain", charts.Name("other"), ledger), nil, object{"name": "b"}, takes))
	w.MustSucceed(b)
	w.Patch(configMaps, "ledger", `{"data":{"balance":"17"}}`)
	uid := w.Get(configMaps, "ledger").GetUID()
	a.Status.Phase = landscaper.DeployItemPhaseInitDelete
	w.mustWarn(w.Do(plugintest.Delete, a), "LeftOnTarget")
	w.MustDelete(a)
	w.mustKeepLedger(uid)
}

// TestWhatAFailedUpgradeHasCreated: what only that revision has goes with the next job that does not want it, or with
// the item. What it has taken over was not made by it, and stays.
// Rule (helm.md#recovery): Objects created only by a failed upgrade are deleted.
func TestWhatAFailedUpgradeHasCreated(t *testing.T) {
	t.Parallel()
	extra := configMap("extra", "")
	hook := hooked("Not-A-Name", "post-upgrade")
	for name, deletion := range map[string]bool{"next job": false, "deletion": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), nil))
			w.MustSucceed(item)
			w.create("ledger", nil)
			w.setConfig(item, w.config(chart("plain", extra, ledger, hook), nil, takes))
			w.UntilDone(plugintest.Reconcile, item)
			w.MustGet(configMaps, "extra")
			w.setConfig(item, w.config(chart("plain"), nil))
			if deletion {
				w.mustWarn(w.MustDelete(item), "LeftOnTarget", "has not created it")
				w.mustHold("ledger")
				return
			}
			w.MustSucceed(item)
			w.mustHold("ledger", "shop-plain-greeting", "shop-plain-settings")
		})
	}
}

// TestDeletionAfterAFailedInstallation: what the installation has created goes, what it has taken over stays.
// Rule (helm.md#deletion): A deletion leaves objects taken over by a failed operation alone.
func TestDeletionAfterAFailedInstallation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("ledger", nil)
	away := charts.File("templates/away.yaml", `apiVersion: v1
kind: Service
metadata: {name: away, namespace: nowhere-`+w.Namespace+`}
spec: {ports: [{port: 80}]}
`) // created last
	item := w.item(w.config(chart("plain", ledger, away), nil, takes))
	for range 2 { // the retry finds it as its own
		w.MustFail(w.call(item), nil, "nowhere")
	}
	if w.MustGet(configMaps, "ledger").GetAnnotations()["meta.helm.sh/release-name"] != "shop" {
		t.Fatal("expected the failed installation to take the object over")
	}
	w.mustWarn(w.MustDelete(item), "LeftOnTarget")
	w.mustHave()
	w.mustHold("ledger")
}

// TestKeptInsideWhatGoes: a Namespace that the chart drops, and later the item, stays with what is kept in it.
// Rule (helm.md#deletion): Helm does not delete an object if a kept one would be deleted with it.
func TestKeptInsideWhatGoes(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		inner := w.Namespace + "-inner"
		outer := charts.File("templates/outer.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+inner+"}\n")
		key := charts.File("templates/key.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: "+inner+
			", annotations: {helm.sh/resource-policy: keep}}\n")
		mustStay := func(when string) {
			w.Helper()
			if w.MustGet(namespaces, inner).GetDeletionTimestamp() != nil || w.At(inner).Get(secrets, "key") == nil {
				w.Fatalf("expected that the Namespace and the Secret stay %s", when)
			}
		}
		item := w.item(w.config(chart("plain", outer, key), nil))
		w.MustSucceed(item)
		w.setConfig(item, w.config(chart("plain", key), nil))
		w.mustChange(item, "keep Namespace %s-inner")
		w.MustSucceed(item)
		mustStay("when the chart drops the Namespace")
		w.mustDeploy(item, w.config(chart("plain", outer, key), nil))
		w.MustDelete(item)
		mustStay("when the item is deleted")
	})
}

// TestDefinitionOfARelease: a definition in the templates goes with the release, unless others have resources of it.
// Rule (helm.md#deletion): A definition in the templates of a release stays with resources of others.
func TestDefinitionOfARelease(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]bool{"of nobody else": false, "of others": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			definition, resource := w.CRD("Vase")
			template := charts.File("templates/vase.yaml", string(w.Marshal(definition)))
			item := w.item(w.config(chart("plain", template), nil))
			w.MustSucceed(item)
			if others {
				w.Create(resource, object{
					"apiVersion": resource.Group + "/v1", "kind": "Vase",
					"metadata": object{"name": "theirs", "namespace": w.Namespace},
				})
			}
			w.MustDelete(item)
			if stays := w.Get(plugintest.CRDs, resource.Resource+"."+resource.Group) != nil; stays != others {
				t.Errorf("expected that it stays: %t, but found %t", others, stays)
			}
		})
	}
}
