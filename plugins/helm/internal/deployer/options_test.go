package deployer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

// options returns the field helmDeploymentConfig.
func options(operation string, options object) object {
	return object{"helmDeploymentConfig": object{operation: options}}
}

// TestOptionsReachHelm: each option is Helm's in the operation that it was set for, and in no other.
// Rule (helm.md#helm-options): An option holds for its operation and for no other.
func TestOptionsReachHelm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := object{"atomic": true, "force": true, "skipSchemaValidation": true, "takeOwnership": true, "wait": true, "timeout": "7s"}
	item := w.item(w.config(chart("plain"), object{"greeting": "one"}, options("install", all)))
	w.MustSucceed(item)
	w.mustHaveOrdered(helm.Request{Action: helm.Install, Options: helm.Options{
		Atomic: true, Force: true, SkipSchemaValidation: true, TakeOwnership: true, Wait: true, Timeout: 7 * time.Second,
	}})
	w.setConfig(item, w.config(chart("plain"), object{"greeting": "two"}, options("install", all)))
	w.MustSucceed(item)
	w.mustHaveOrdered(helm.Request{Action: helm.Upgrade, Options: helm.Options{Timeout: 5 * time.Minute}})
	w.setConfig(item, w.config(chart("plain"), object{"greeting": "three"}, options("upgrade", object{"takeOwnership": true, "timeout": "9s"})))
	w.MustSucceed(item)
	w.mustHaveOrdered(helm.Request{Action: helm.Upgrade, Options: helm.Options{TakeOwnership: true, Timeout: 9 * time.Second}})
	w.setConfig(item, w.config(chart("plain"), nil, options("uninstall", object{"wait": true, "timeout": "11s"})))
	w.MustDelete(item)
	w.mustHaveOrdered(helm.Request{Action: helm.Uninstall, Options: helm.Options{Wait: true, Timeout: 11 * time.Second}})
}

// mustHaveOrdered checks the action and the options of the only request to Helm since the last look.
func (w *world) mustHaveOrdered(want helm.Request) {
	w.Helper()
	orders := w.orders.take()
	if len(orders) != 1 || orders[0].Action != want.Action {
		w.Fatalf("expected that Helm is asked to %s, but found %d requests: %+v", want.Action, len(orders), orders)
	}
	if diff := cmp.Diff(want.Options, orders[0].Options); diff != "" {
		w.Errorf("%s: -want +got:\n%s", want.Action, diff)
	}
}

// TestTimeoutIsBounded: what is left of the item's time is all that Helm gets, whatever the option says.
func TestTimeoutIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason  string
		timeout any
		atMost  time.Duration
	}{
		"none": {reason: "the item's is the default", atMost: time.Minute},
		// Rule (helm.md#helm-options): A `timeout` of `0` means the time of the item.
		"zero":     {reason: "this is no timeout either", timeout: "0", atMost: time.Minute},
		"\"none\"": {reason: "nor is this", timeout: "none", atMost: time.Minute},
		// Rule (helm.md#helm-options): A `timeout` limits each wait of Helm.
		"shorter": {reason: "it counts", timeout: "5s", atMost: 5 * time.Second},
		// Rule (helm.md#helm-options): A wait of Helm has at most the time of the item.
		"longer": {reason: "the item has no more", timeout: "1h", atMost: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			fields := object{}
			if c.timeout != nil {
				fields["timeout"] = c.timeout
			}
			item := w.item(w.config(chart("plain"), nil, options("install", fields)))
			if result := w.DoCall(ctx, plugintest.Reconcile, w.CallOf(item)); result.Succeeded == nil {
				t.Fatalf("expected success, but found: %s", result)
			}
			if got := w.orders.take()[0].Options.Timeout; got <= 0 || got > c.atMost {
				t.Errorf("%s: expected a timeout of at most %s, but found %s", c.reason, c.atMost, got)
			}
		})
	}
}

// TestTimeoutOfAHook: the option ends the wait for a hook that hangs, long before the item's time is up.
// Rule (helm.md#helm-options): A `timeout` ends the wait for a hook.
func TestTimeoutOfAHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("failinghook"), object{"hook": object{"fails": "hang"}}, options("install", object{"timeout": "1s"})))
	w.MustFail(w.Do(plugintest.Reconcile, item), []landscaper.ErrorCode{landscaper.ErrorTimeout},
		"post-install hook", "shop-failinghook-hook", "failinghook/templates/hook.yaml", "not complete within 1s")
	w.mustHave("1 failed")
	w.MustDelete(item)
	w.mustHave()
}

// TestAtomic: a failed installation leaves nothing with it, and a failed upgrade what was there before. Without it both
// leave a failed revision, from which the next job goes on.
func TestAtomic(t *testing.T) {
	t.Parallel()
	good, bad := object{"hook": object{"fails": "none"}, "greeting": "good"}, object{"hook": object{"fails": "reject"}, "greeting": "bad"}
	for name, c := range map[string]struct {
		reason           string
		atomic           bool
		install, upgrade []string
		installs, says   string
		greets           any
	}{
		// Rule (helm.md#helm-options): `atomic` uninstalls a failed installation and rolls back a failed upgrade.
		"atomic": {
			reason: "as if nothing had been tried", atomic: true,
			install: nil, installs: "has been uninstalled due to atomic being set",
			upgrade: []string{"1 superseded", "2 failed", "3 deployed"}, says: "has been rolled back due to atomic being set", greets: "good",
		},
		"not": {
			reason: "to be looked at", install: []string{"1 failed"}, upgrade: []string{"1 failed", "2 deployed", "3 failed"}, greets: "bad",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			greeting := func() any {
				o := w.Get(configMaps, "shop-failinghook")
				if o == nil {
					return nil
				}
				return o.Object["data"].(object)["greeting"]
			}
			operations := object{"helmDeploymentConfig": object{"install": object{"atomic": c.atomic}, "upgrade": object{"atomic": c.atomic}}}
			item := w.item(w.config(chart("failinghook"), bad, operations))
			w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "hook", "failinghook/templates/hook.yaml", "a valid config key", c.installs)
			w.mustHave(c.install...)
			if installed := greeting() != nil; installed == c.atomic {
				t.Errorf("%s: expected objects of the failed installation: %t, but found %t", c.reason, !c.atomic, installed)
			}
			w.setConfig(item, w.config(chart("failinghook"), good, operations))
			w.MustSucceed(item)
			w.setConfig(item, w.config(chart("failinghook"), bad, operations))
			w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "a valid config key", c.says)
			w.mustHave(c.upgrade...)
			if got := greeting(); got != c.greets {
				t.Errorf("%s: expected the greeting %v, but found %v", c.reason, c.greets, got)
			}
			w.setConfig(item, w.config(chart("failinghook"), good, operations))
			w.MustSucceed(item)
			if got := greeting(); got != "good" {
				t.Errorf("%s: expected that the next job mends it, but found %v", c.reason, got)
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
		item := w.item(w.config(chart("workload"), nil, options("install", object{"wait": true, "timeout": "1s"})))
		w.MustFail(w.Do(plugintest.Reconcile, item), []landscaper.ErrorCode{landscaper.ErrorTimeout}, "not ready within 1s: Service shop-workload, Deployment shop-workload")
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
		item := w.item(w.config(chart("plain", claim), nil, options("install", object{"wait": true, "timeout": "1s"})))
		w.MustFail(w.Do(plugintest.Reconcile, item), []landscaper.ErrorCode{landscaper.ErrorTimeout},
			"context deadline exceeded: PersistentVolumeClaim is not bound: "+w.Namespace+"/data")
	})
	// Rule (helm.md#helm-options): Without `wait` the deployer waits after Helm has finished.
	t.Run("by the deployer", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		item := w.item(w.config(chart("workload"), nil))
		result := w.Do(plugintest.Reconcile, item)
		if result.InProgress == nil || !strings.Contains(result.InProgress.WaitingFor, "Deployment "+w.Namespace+"/shop-workload") {
			t.Fatalf("expected a wait for the Deployment, but found: %s", result)
		}
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
		"by Helm":         {reason: "its time is up", fields: options("uninstall", object{"wait": true, "timeout": "1s"}), says: "not gone within 1s"},
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
			if result.Succeeded != nil || !strings.Contains(result.String(), c.says) || !strings.Contains(result.String(), "shop-plain-greeting") {
				t.Errorf("%s: expected %q, but found: %s", c.reason, c.says, result)
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
		"nobody's": {reason: "somebody has made it by hand", others: func(w *world) {
			o := &unstructured.Unstructured{Object: object{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "shop-plain-greeting"}, "data": object{"greeting": "mine"},
			}}
			if _, err := w.Objects(configMaps).Create(w.Context(), o, metav1.CreateOptions{}); err != nil {
				w.Fatal(err)
			}
		}},
		// Rule (helm.md#helm-options): Without `takeOwnership` an object of another release is an error.
		"of another release": {reason: "another item deploys it", others: func(w *world) {
			static := charts.File("templates/static.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: shop-plain-greeting}
data: {greeting: mine}
`)
			w.MustSucceed(w.itemOf("other", w.config(chart("plain", static), nil, object{"name": "other"})))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.others(w)
			item := w.item(w.config(chart("plain"), nil))
			w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, `ConfigMap "shop-plain-greeting"`, "takeOwnership")
			w.mustGreet("mine")
			take := object{"takeOwnership": true}
			w.setConfig(item, w.config(chart("plain"), nil, object{"helmDeploymentConfig": object{"install": take, "upgrade": take}}))
			w.MustSucceed(item)
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
		w.setConfig(item, w.config(chart("plain"), object{"greeting": greeting}))
		w.MustSucceed(item)
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
	other := func() any { return w.Get(configMaps, "shop-plain-greeting").Object["data"].(object)["other"] }
	w.Patch(configMaps, "shop-plain-greeting", `{"data":{"other":"x"}}`)
	w.setConfig(item, w.config(chart("plain"), object{"greeting": "two"}))
	w.MustSucceed(item)
	if got := other(); got != "x" {
		t.Errorf("fields of others stay, but found %v", got)
	}
	w.setConfig(item, w.config(chart("plain"), object{"greeting": "three"}, options("upgrade", object{"force": true})))
	w.MustSucceed(item)
	if got := other(); got != nil {
		t.Errorf("expected that the object is replaced, but found %v", got)
	}
	w.MustDelete(item)
}
