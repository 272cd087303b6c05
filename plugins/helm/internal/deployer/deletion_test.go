package deployer_test

import (
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

// TestDeletionAfterACrash deletes an item whose release was never finished. Helm itself refuses to uninstall what is in
// progress.
func TestDeletionAfterACrash(t *testing.T) {
	t.Parallel()
	for name, deployed := range map[string]bool{"in the installation": false, "in an upgrade": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), object{"greeting": "one"}))
			if deployed {
				w.MustSucceed(item)
				w.setConfig(item, w.config(chart("plain"), object{"greeting": "two"}))
			}
			w.Disturb(plugintest.Reconcile, item, 1, afterStorageWrite)
			w.Restart()
			w.MustDelete(item)
			w.mustHave()
			if got := w.Names(configMaps, ""); len(got) > 0 {
				t.Errorf("after the deletion there is still %v", got)
			}
		})
	}
}

// A hook that fails holds a deletion up, and the error names the way out, which counts when it is set meanwhile.
func TestDeletionWithoutHooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// An API server refuses the hook, so no node is needed.
	hook := charts.File("templates/hook.yaml", `apiVersion: v1
kind: ConfigMap
metadata:
  name: last
  namespace: nowhere-`+w.Namespace+`
  annotations: {helm.sh/hook: pre-delete}
`)
	item := w.item(w.config(chart("plain", hook), nil))
	w.MustSucceed(item)
	item.Status.Phase = landscaper.DeployItemPhaseInitDelete
	w.MustFail(w.Do(plugintest.Delete, item), nil, `pre-delete hook ConfigMap "last"`, "helmDeploymentConfig.uninstall.disableHooks")
	w.SetConfig(item, w.config(chart("plain", hook), nil, object{"helmDeploymentConfig": object{"uninstall": object{"disableHooks": true}}}))
	w.MustDelete(item)
	w.mustHave()
}
