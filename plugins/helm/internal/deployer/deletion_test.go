package deployer_test

import (
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
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
