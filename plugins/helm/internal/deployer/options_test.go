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
		"none":     {reason: "the item's is the default", atMost: time.Minute},
		"zero":     {reason: "this is no timeout either", timeout: "0", atMost: time.Minute},
		"\"none\"": {reason: "nor is this", timeout: "none", atMost: time.Minute},
		"shorter":  {reason: "it counts", timeout: "5s", atMost: 5 * time.Second},
		"longer":   {reason: "the item has no more", timeout: "1h", atMost: time.Minute},
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

// TestWait: with the option Helm waits, and says what for when its time is up. Without it no process is held meanwhile.
func TestWait(t *testing.T) {
	t.Parallel()
	t.Run("by Helm", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		item := w.item(w.config(chart("workload"), nil, options("install", object{"wait": true, "timeout": "1s"})))
		w.MustFail(w.Do(plugintest.Reconcile, item), []landscaper.ErrorCode{landscaper.ErrorTimeout}, `Deployment "shop-workload" is not ready after 1s`)
		w.mustHave("1 failed")
		w.MustDelete(item)
	})
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
func TestWaitForTheEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		fields object
		says   string
	}{
		"by Helm":         {reason: "its time is up", fields: options("uninstall", object{"wait": true, "timeout": "1s"}), says: "after 1s"},
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
		"nobody's": {reason: "somebody has made it by hand", others: func(w *world) {
			o := &unstructured.Unstructured{Object: object{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "shop-plain-greeting"}, "data": object{"greeting": "mine"},
			}}
			if _, err := w.Objects(configMaps).Create(w.Context(), o, metav1.CreateOptions{}); err != nil {
				w.Fatal(err)
			}
		}},
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
			w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, `ConfigMap "shop-plain-greeting"`, "takeOwnership", "plain/templates/greeting.yaml")
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
