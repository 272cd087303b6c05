package apply_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/apiserver"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// runIn applies manifests with a context of its own, as a first job.
func (w *world) runIn(ctx context.Context, manifests ...desired.Manifest) (apply.Result, error) {
	nothing := func(object.Key) (managedresource.ManagedResourceStatus, bool) {
		return managedresource.ManagedResourceStatus{}, false
	}
	return apply.Run(ctx, w.client, w.mustPlan(manifests...), nothing)
}

// TestUnknownFields: all strategies fail over a field that the kind does not have, when they create an object and when
// they change it; unless they are told to pass it over, and then there is a warning.
// Rule (manifest.md#for-operators): A field unknown to the kind of an object fails all strategies, or causes a warning
// without `strict`.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range managedresource.UpdateStrategies() {
		t.Run(lower(s), func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			name := "web-" + lower(s)
			bad := w.Deployment(name, 2)
			bad["spec"].(fields)["minReadySecond"] = int64(10)
			strict := apiserver.WithStrictFields(w.Context())
			for range 2 { // when it is created, and when it is changed
				_, err := w.runIn(strict, manifest(bad, strategy(s)))
				w.mustFail(err, target.ReasonRejected, true, "Deployment "+w.Namespace+"/"+name,
					`unknown field "spec.minReadySecond"`, "correct these fields or leave them out")
				if _, err := w.runIn(strict, manifest(w.Deployment(name, 1), strategy(s))); err != nil {
					t.Fatal(err)
				}
			}
			if s == managedresource.UpdateStrategyApply { // it has no other way
				return
			}
			result, err := w.runIn(w.Context(), manifest(bad, strategy(s)))
			const dropped = `unknown field "spec.minReadySecond"`
			if err != nil || len(result.Warnings) == 0 || !strings.Contains(result.Warnings[0].Text, dropped) {
				t.Errorf("expected a warning, but found %v and %v", result.Warnings, err)
			}
		})
	}
}
