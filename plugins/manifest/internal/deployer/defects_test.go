package deployer_test

import (
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// What is known to go wrong in Landscaper's deployer, as far as the tests of the single features do not show it.

// TestWaysOutOfADeletion: a target that is gone does not keep its items for ever.
func TestWaysOutOfADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	w.mustSucceed(item)
	for name, c := range map[string]struct {
		reason string
		call   sdktest.Call
		want   string
	}{
		"unreachable": {
			reason: "the cluster is gone", want: "cannot reach target cluster 127.0.0.1:1",
			call: sdktest.Call{DeployItem: item, Target: w.Target("cluster", nowhere())},
		},
		"none": {reason: "the Target is", want: "spec.target", call: sdktest.Call{DeployItem: item}},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			result := w.Plugin.Delete(t.Context(), c.call)
			if result.Failed == nil {
				t.Fatalf("%s: expected a failure, but found: %s", c.reason, result)
			}
			w.MustFail(result, result.Failed.Codes(), c.want, landscaper.DeleteWithoutUninstallAnnotation)
			if len(w.managed(item)) != 1 {
				t.Errorf("%s: the object was forgotten", c.reason)
			}
		})
	}
	w.mustDelete(item)
}

// TestFailedExport: a job does not succeed without its exports.
// Rule (manifest.md#exports): A job does not succeed without its exports.
func TestFailedExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := export("token", ".data.secret", w.Namespace, "a")
	broken["fromObjectRef"] = object{"apiVersion": "v1", "kind": "Secret", "jsonPath": ".data.token"}
	item := w.item(with(config(w.configMap("a", object{"secret": "no reference"})), "exports", []any{broken}))
	w.MustFail(w.Do(plugintest.Reconcile, item), nil, "Export", `export "token"`, "ConfigMap "+w.Namespace+"/a at .data.secret", "found a string")
}

func TestItemWithoutConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(nil)
	item.Spec.Config = nil
	w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "spec.config")
	w.mustDelete(item)
}
