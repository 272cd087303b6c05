package deployer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestTargetThatLeadsToAnotherCluster: what is on the cluster before is neither forgotten nor made anew elsewhere.
// Rule (manifest.md#managed-resources): An item with objects fails with `TargetChanged` on another cluster, and forgets
// nothing.
func TestTargetThatLeadsToAnotherCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	w.mustSucceed(item)
	before := item.Status.ProviderStatus
	elsewhere := string(before.Raw)
	elsewhere = strings.ReplaceAll(elsewhere, string(w.MustGet(namespaces, metav1.NamespaceSystem).GetUID()), "another")
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(elsewhere)}
	for _, operation := range []plugintest.Operation{plugintest.Reconcile, plugintest.Delete} {
		w.MustFail(w.Do(operation, item), plugintest.ConfigurationProblem, "TargetChanged", "UID another there",
			"lead to that cluster again", landscaper.DeleteWithoutUninstallAnnotation)
		if diff := cmp.Diff(elsewhere, string(item.Status.ProviderStatus.Raw)); diff != "" {
			t.Errorf("the provider status: -want +got:\n%s", diff)
		}
	}
	item.Status.ProviderStatus = before
	w.mustDelete(item)
	if w.Get(configMaps, "a") != nil {
		t.Error("expected the object to be deleted where it is")
	}
}

// TestMissingTarget: another Target that does not exist is an error that names it and says whose field it is.
func TestMissingTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	elsewhere := export("x", ".data.x", w.Namespace, "a")
	elsewhere["targetName"] = "nowhere"
	checks := w.check(object{"jsonPath": ".data", "operator": "exists"}, "a")
	checks["custom"].([]any)[0].(object)["targetName"] = "nowhere"
	for name, c := range map[string]struct {
		reason, field string
		value         any
		want          string
	}{
		"export": {reason: "the export is named", field: "exports", value: []any{elsewhere}, want: `export "x"`},
		"check":  {reason: "the check is named", field: "readinessChecks", value: checks, want: `readiness check "check"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			result := w.Do(plugintest.Reconcile, w.itemOf(name, with(config(w.configMap(name, nil)), c.field, c.value)))
			w.MustFail(result, plugintest.ConfigurationProblem, c.want, "NoTargetFound", "/nowhere")
			if t.Failed() {
				t.Log(c.reason)
			}
		})
	}
	t.Run("group", func(t *testing.T) {
		w := w.in(t)
		group := deleteAll(customGroup("configmaps", nil))
		group["customResourceGroup"].(object)["targetName"] = "nowhere"
		item := w.itemOf("group", with(config(w.configMap("group", nil)), "deletionGroups", groups(group)))
		w.mustSucceed(item)
		w.MustFail(w.Do(plugintest.Delete, item), plugintest.ConfigurationProblem, "deletionGroups[0].customResourceGroup.targetName", "NoTargetFound", "/nowhere")
		if w.Get(configMaps, "group") == nil {
			t.Error("an object was deleted that no group takes")
		}
	})
}
