package deployer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// TestStatusOfAnUnchangedItem: a job that finds nothing to do leaves the provider status as it was, so that the host
// writes no event.
// Rule (helm.md#unchanged-releases-and-drift): A job without work leaves the provider status as it was.
func TestStatusOfAnUnchangedItem(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]object{"with a release": {}, "without": withoutRelease} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), nil, more))
			w.MustSucceed(item)
			before := string(item.Status.ProviderStatus.Raw)
			plugintest.NewJob(item)
			w.MustSucceed(item)
			if diff := cmp.Diff(before, string(item.Status.ProviderStatus.Raw)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
