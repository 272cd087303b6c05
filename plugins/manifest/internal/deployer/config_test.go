package deployer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
)

// TestBadConfiguration: a job with a bad configuration fails without a request, and Validate reports the same problems.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(with(config(w.configMap("a", nil)), "updateStrategy", "replace"))
	const problem = `Unsupported value: "replace": supported values: "update", "patch", "merge", "mergeOverwrite", "apply"`
	w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "spec.config: updateStrategy: "+problem)
	if got := w.Requests.Take(); len(got) > 0 {
		t.Errorf("expected no request for a bad configuration, but found %v", got)
	}
	problems, err := w.Plugin.Validate(t.Context(), item.Spec.Type, item.Spec.Config.Raw)
	if diff := cmp.Diff([]sdk.Problem{{Field: "updateStrategy", Message: problem}}, problems); diff != "" || err != nil {
		t.Errorf("error %v, problems: -want +got:\n%s", err, diff)
	}
}
