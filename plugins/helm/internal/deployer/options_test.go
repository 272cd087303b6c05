package deployer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

// TestOptionsReachHelm: each option is Helm's in its own operation, and in no other. The bounds of the timeout are in
// the tests of package releasejob.
// Rule (helm.md#helm-options): An option holds for its operation and for no other.
func TestOptionsReachHelm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mustOrder := func(action helm.Action, options helm.Options) {
		t.Helper()
		orders := w.orders.take()
		if len(orders) != 1 || orders[0].Action != action {
			t.Fatalf("expected one request to %s, but found %+v", action, orders)
		}
		if diff := cmp.Diff(options, orders[0].Options); diff != "" {
			t.Errorf("%s: -want +got:\n%s", action, diff)
		}
	}
	all := options(object{
		"atomic": true, "force": true, "skipSchemaValidation": true, "takeOwnership": true, "wait": true, "timeout": "7s",
	}, "install")
	item := w.item(w.config(chart("plain"), object{"greeting": "one"}, all))
	w.MustSucceed(item)
	mustOrder(helm.Install, helm.Options{
		Atomic: true, Force: true, SkipSchemaValidation: true, TakeOwnership: true, Wait: true, Timeout: 7 * time.Second,
	})
	w.mustDeploy(item, w.config(chart("plain"), object{"greeting": "two"}, all))
	mustOrder(helm.Upgrade, helm.Options{Timeout: 5 * time.Minute})
	taking := options(object{"takeOwnership": true, "timeout": "9s"}, "upgrade")
	w.mustDeploy(item, w.config(chart("plain"), object{"greeting": "three"}, taking))
	mustOrder(helm.Upgrade, helm.Options{TakeOwnership: true, Timeout: 9 * time.Second})
	w.setConfig(item, w.config(chart("plain"), nil, options(object{"wait": true, "timeout": "11s"}, "uninstall")))
	w.MustDelete(item)
	mustOrder(helm.Uninstall, helm.Options{Wait: true, Timeout: 11 * time.Second})
}

// TestTimeoutOfAHook: the option ends the wait for a hook that hangs, long before the item's time is up.
// Rule (helm.md#helm-options): A `timeout` ends the wait for a hook.
func TestTimeoutOfAHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("failinghook"), object{"hook": object{"fails": "hang"}},
		options(object{"timeout": "1s"}, "install")))
	w.MustFail(w.call(item), timedOut,
		"post-install hook", "shop-failinghook-hook", "failinghook/templates/hook.yaml", "not complete within 1s")
	w.mustHave("1 failed")
	w.MustDelete(item)
	w.mustHave()
}

// TestAtomic: a failed installation leaves nothing with it, and a failed upgrade what was there before. Without it both
// leave a failed revision, from which the next job goes on.
func TestAtomic(t *testing.T) {
	t.Parallel()
	config := func(w *world, fails string, atomic bool) object {
		values := object{"hook": object{"fails": fails}, "greeting": fails}
		return w.config(chart("failinghook"), values, options(object{"atomic": atomic}, "install", "upgrade"))
	}
	for name, c := range map[string]struct {
		reason           string
		atomic           bool
		install, upgrade []string
		installs, says   string
		greets           any // after the failed upgrade
	}{
		// Rule (helm.md#helm-options): `atomic` uninstalls a failed installation and rolls back a failed upgrade.
		"atomic": {
			reason: "as if nothing had been tried", atomic: true,
			install: nil, installs: "has been uninstalled due to atomic being set",
			upgrade: []string{"1 superseded", "2 failed", "3 deployed"},
			says:    "has been rolled back due to atomic being set", greets: "none",
		},
		"not": {
			reason: "to be looked at", install: []string{"1 failed"},
			upgrade: []string{"1 failed", "2 deployed", "3 failed"}, greets: "reject",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			greeting := func() any { return w.data("shop-failinghook")["greeting"] }
			item := w.item(config(w, "reject", c.atomic))
			w.mustRefuse(item, "hook", "failinghook/templates/hook.yaml", "a valid config key", c.installs)
			w.mustHave(c.install...)
			if installed := greeting() != nil; installed == c.atomic {
				t.Errorf("%s: expected objects of the failed installation: %t, but found %t", c.reason, !c.atomic, installed)
			}
			w.mustDeploy(item, config(w, "none", c.atomic))
			w.setConfig(item, config(w, "reject", c.atomic))
			w.mustRefuse(item, "a valid config key", c.says)
			w.mustHave(c.upgrade...)
			if got := greeting(); got != c.greets {
				t.Errorf("%s: expected the greeting %v, but found %v", c.reason, c.greets, got)
			}
			w.mustDeploy(item, config(w, "none", c.atomic))
			if got := greeting(); got != "none" {
				t.Errorf("%s: expected the next job to mend it, but found %v", c.reason, got)
			}
			w.MustDelete(item)
		})
	}
}

// TestWait: with the option Helm waits, and says what for when its time is up. Without it no process is held meanwhile.
func TestWait(t *testing.T) {
	t.Parallel()
	// Rule (helm.md#helm-options): With `wait` Helm waits until objects are ready.
	t.Run("by Helm", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		item := w.item(w.config(chart("workload"), nil, options(object{"wait": true, "timeout": "1s"}, "install")))
		w.MustFail(w.call(item), timedOut,
			"not ready within 1s: Service shop-workload, Deployment shop-workload")
		w.mustHave("1 failed")
		w.MustDelete(item)
	})
	// Rule (helm.md#helm-options): The error of a wait of Helm names the objects not ready, and no other line of its
	// log.
	t.Run("last state", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		claim := charts.File("templates/data.yaml", `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`)
		item := w.item(w.config(chart("plain", claim), nil, options(object{"wait": true, "timeout": "1s"}, "install")))
		w.MustFail(w.call(item), timedOut,
			"context deadline exceeded: PersistentVolumeClaim is not bound: "+w.Namespace+"/data")
	})
	// Rule (helm.md#helm-options): Without `wait` the deployer waits after Helm has finished.
	t.Run("by the deployer", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		item := w.item(w.config(chart("workload"), nil))
		w.mustWait(w.call(item), "Deployment "+w.Namespace+"/shop-workload")
		w.mustHave("1 deployed")
		w.MustDelete(item)
	})
}

// TestWaitForTheEnd: an object with a finalizer is waited for, by Helm or by the deployer.
// Rule (helm.md#deletion): A deletion waits until the objects are gone.
func TestWaitForTheEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		fields object
		says   string
	}{
		"by Helm": {
			reason: "its time is up", fields: options(object{"wait": true, "timeout": "1s"}, "uninstall"),
			says: "not gone within 1s",
		},
		"by the deployer": {reason: "the job goes on", fields: object{}, says: "example.org/hold"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), nil, c.fields))
			w.MustSucceed(item)
			w.Patch(configMaps, "shop-plain-greeting", `{"metadata":{"finalizers":["example.org/hold"]}}`)
			item.Status.Phase = landscaper.DeployItemPhaseInitDelete
			result := w.Do(plugintest.Delete, item)
			for _, part := range []string{c.says, "shop-plain-greeting"} {
				if result.Succeeded != nil || !strings.Contains(result.String(), part) {
					t.Errorf("%s: expected %q, but found: %s", c.reason, part, result)
				}
			}
			w.Patch(configMaps, "shop-plain-greeting", `{"metadata":{"finalizers":null}}`)
			w.MustDelete(item)
			w.mustHave()
		})
	}
}

// TestTakeOwnership: what others have made is left alone and named, unless the option is set.
func TestTakeOwnership(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		others func(w *world)
	}{
		// Rule (helm.md#helm-options): Without `takeOwnership` an object of no release is an error.
		"nobody's": {reason: "it is made by hand", others: func(w *world) {
			w.create("shop-plain-greeting", object{"greeting": "mine"})
		}},
		// Rule (helm.md#helm-options): Without `takeOwnership` an object of another release is an error.
		"of another release": {reason: "another item deploys it", others: func(w *world) {
			static := configMap("shop-plain-greeting", "", "data: {greeting: mine}")
			w.MustSucceed(w.itemOf("other", w.config(chart("plain", static), nil, object{"name": "other"})))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.others(w)
			item := w.item(w.config(chart("plain"), nil))
			w.mustRefuse(item, "OwnedByOthers", `ConfigMap "shop-plain-greeting"`, "takeOwnership")
			w.mustGreet("mine")
			w.mustDeploy(item, w.config(chart("plain"), nil, takes))
			w.mustGreet("hello")
			w.MustDelete(item)
			w.mustGreet(nil)
		})
	}
}

// TestHistoryIsBounded keeps as many revisions as the operator allows.
// Rule (helm.md#for-operators): `maxHistory` limits the revisions of a release.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Configure(object{"maxHistory": 2})
	item := w.item(w.config(chart("plain"), nil))
	for _, greeting := range []string{"one", "two", "three", "four"} {
		w.mustDeploy(item, w.config(chart("plain"), object{"greeting": greeting}))
	}
	w.mustHave("3 superseded", "4 deployed")
	w.MustDelete(item)
}

// TestForce: objects are replaced, with what others have put into them.
// Rule (helm.md#helm-options): `force` replaces objects, and fields of other clients are lost.
func TestForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), nil))
	w.MustSucceed(item)
	other := func() any { return w.data("shop-plain-greeting")["other"] }
	w.Patch(configMaps, "shop-plain-greeting", `{"data":{"other":"x"}}`)
	w.mustDeploy(item, w.config(chart("plain"), object{"greeting": "two"}))
	if got := other(); got != "x" {
		t.Errorf("fields of others stay, but found %v", got)
	}
	uid := w.MustGet(configMaps, "shop-plain-greeting").GetUID()
	w.mustDeploy(item, w.config(chart("plain"), object{"greeting": "three"}, options(object{"force": true}, "upgrade")))
	if got := other(); got != nil {
		t.Errorf("expected that the object is replaced, but found %v", got)
	}
	w.Patch(configMaps, "shop-plain-greeting", `{"immutable":true}`)
	w.setConfig(item, w.config(chart("plain"), object{"greeting": "four"}, options(object{"force": true}, "upgrade")))
	w.mustRefuse(item, "immutable")
	if got := w.MustGet(configMaps, "shop-plain-greeting").GetUID(); got != uid {
		t.Errorf("expected that nothing is deleted, but found the UID %s after %s", got, uid)
	}
	w.MustDelete(item)
}
