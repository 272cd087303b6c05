package deployer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

var ledger = charts.File("templates/ledger.yaml",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ledger}\ndata: {currency: EUR}\n")

// takes are the options with which a release takes objects over.
var takes = object{"helmDeploymentConfig": object{
	"install": object{"takeOwnership": true}, "upgrade": object{"takeOwnership": true},
}}

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
	if said := w.mustWarn(w.MustSucceed(b), "TakenOver"); !strings.Contains(said, "release "+w.Namespace+"/shop") {
		t.Errorf("expected the former release, but found %q", said)
	}
	w.Patch(configMaps, "ledger", `{"data":{"balance":"17","currency":"USD"}}`)
	uid := w.Get(configMaps, "ledger").GetUID()

	plugintest.NewJob(a)
	if said := w.mustWarn(w.MustSucceed(a), "LeftOnTarget"); !strings.Contains(said, "belongs to release "+w.Namespace+"/b") {
		t.Errorf("expected whose the object is, but found %q", said)
	}
	w.mustHave("1 deployed")
	w.mustKeepLedger(uid)
	if slices.Contains(w.managed(a), "ConfigMap ledger") {
		t.Errorf("expected that the item does not manage it any more, but found %v", w.managed(a))
	}

	w.setConfig(a, w.config(chart("plain", charts.Version("2.0.0")), nil))
	w.MustSucceed(a)
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
	extra := charts.File("templates/extra.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n")
	hook := charts.File("templates/hook.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: Not-A-Name\n"+
		"  annotations: {helm.sh/hook: post-upgrade}\n")
	for name, deletion := range map[string]bool{"next job": false, "deletion": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), nil))
			w.MustSucceed(item)
			w.Create(configMaps, object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "ledger"}})
			w.setConfig(item, w.config(chart("plain", extra, ledger, hook), nil, takes))
			w.UntilDone(plugintest.Reconcile, item)
			if w.Get(configMaps, "extra") == nil {
				t.Fatal("expected the failed upgrade to create an object")
			}
			w.setConfig(item, w.config(chart("plain"), nil))
			if deletion {
				if said := w.mustWarn(w.MustDelete(item), "LeftOnTarget"); !strings.Contains(said, "has not created it") {
					t.Errorf("expected why the object stays, but found %q", said)
				}
			} else {
				w.MustSucceed(item)
			}
			if diff := cmp.Diff([]string{"ledger"}, slices.DeleteFunc(w.Names(configMaps, ""), func(name string) bool {
				return strings.HasPrefix(name, "shop-") || name == "kube-root-ca.crt"
			}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestDeletionAfterAFailedInstallation: what the installation has created goes, what it has taken over stays.
// Rule (helm.md#deletion): A deletion leaves objects taken over by a failed operation alone.
func TestDeletionAfterAFailedInstallation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMaps, object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "ledger"}})
	away := charts.File("templates/away.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: away, namespace: nowhere-"+w.Namespace+"}\n"+
		"spec: {ports: [{port: 80}]}\n") // created last
	item := w.item(w.config(chart("plain", ledger, away), nil, takes))
	for range 2 { // the retry finds it as its own
		w.MustFail(w.Do(plugintest.Reconcile, item), nil, "nowhere")
	}
	if w.MustGet(configMaps, "ledger").GetAnnotations()["meta.helm.sh/release-name"] != "shop" {
		t.Fatal("expected the failed installation to take the object over")
	}
	w.mustWarn(w.MustDelete(item), "LeftOnTarget")
	w.mustHave()
	if w.Get(configMaps, "ledger") == nil || w.Get(configMaps, "shop-plain-greeting") != nil {
		t.Errorf("expected only what existed before, but found %v", w.Names(configMaps, ""))
	}
}

// TestKeptInsideWhatGoes: a Namespace that the chart drops, and later the item, stays with what is kept in it.
// Rule (helm.md#deletion): Helm does not delete an object if a kept one would be deleted with it.
func TestKeptInsideWhatGoes(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode object) {
		t.Helper()
		w := newWorld(t)
		inner := w.Namespace + "-inner"
		outer := charts.File("templates/outer.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+inner+"}\n")
		key := charts.File("templates/key.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: "+inner+
			", annotations: {helm.sh/resource-policy: keep}}\n")
		mustStay := func(when string) {
			t.Helper()
			if w.MustGet(namespaces, inner).GetDeletionTimestamp() != nil || w.At(inner).Get(secrets, "key") == nil {
				t.Fatalf("expected that the Namespace and the Secret stay %s", when)
			}
		}
		item := w.item(w.config(chart("plain", outer, key), nil, mode))
		w.MustSucceed(item)
		w.setConfig(item, w.config(chart("plain", key), nil, mode))
		w.mustChange(item, "keep Namespace %s-inner")
		w.MustSucceed(item)
		mustStay("when the chart drops the Namespace")
		w.setConfig(item, w.config(chart("plain", outer, key), nil, mode))
		w.MustSucceed(item)
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
			item := w.item(w.config(chart("plain", charts.File("templates/vase.yaml", string(w.Marshal(definition)))), nil))
			w.MustSucceed(item)
			if others {
				w.Create(resource, object{
					"apiVersion": resource.Group + "/v1", "kind": "Vase", "metadata": object{"name": "theirs", "namespace": w.Namespace},
				})
			}
			w.MustDelete(item)
			if stays := w.Get(plugintest.CRDs, resource.Resource+"."+resource.Group) != nil; stays != others {
				t.Errorf("expected that it stays: %t, but found %t", others, stays)
			}
		})
	}
}
