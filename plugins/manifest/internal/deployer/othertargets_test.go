package deployer_test

import (
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

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
