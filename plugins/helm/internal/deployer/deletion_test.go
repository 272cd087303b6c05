package deployer_test

import (
	"testing"

	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// TestDeletionAfterACrash deletes an item whose release was never finished. Helm itself refuses to uninstall what is in progress.
func TestDeletionAfterACrash(t *testing.T) {
	t.Parallel()
	for name, deployed := range map[string]bool{"in the installation": false, "in an upgrade": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), object{"greeting": "one"}))
			if deployed {
				w.mustSucceed(item)
				w.setConfig(item, w.config(chart("plain"), object{"greeting": "two"}))
			}
			_, dead := w.killAt(1, true)
			untilDead(item, dead, func(call sdktest.Call) *sdktest.Result { return w.plugin.Reconcile(t.Context(), call) }, w.call(item))
			w.requests.set(nil, nil)
			w.plugin = w.newPlugin()
			w.mustDelete(item)
			w.mustHave()
			if got := w.names(configMaps); len(got) > 0 {
				t.Errorf("after the deletion there is still %v", got)
			}
		})
	}
}
