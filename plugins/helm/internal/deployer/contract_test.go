package deployer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

func TestCapabilities(t *testing.T) {
	t.Parallel()
	got := newWorld(t).Plugin.Info().Capabilities
	want := sdktest.Capabilities{
		ForceReconcile: true, Render: true, Diff: true, Validate: true, Configure: true, Watch: true, ContextCredentials: true, LatePickUp: true,
		Hooks: []hook.Type{hook.ShouldReconcile},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestHooksOfTheChart: with a release Helm runs them, and the progress says which. Their order and what becomes of them
// are in the tests of package helm3.
// Rule (helm.md#releases): Helm runs the hooks of a chart, and the progress names them.
func TestHooksOfTheChart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mustRun := func(result *sdktest.Result, want ...string) {
		t.Helper()
		var ran []string
		for _, m := range result.Messages {
			if m.Progress != nil && m.Progress.Step == "RunHook" {
				ran = append(ran, strings.TrimSuffix(m.Progress.Message, " of hooks/templates/hooks.yaml"))
			}
		}
		if diff := cmp.Diff(want, ran); diff != "" {
			t.Errorf("the hooks: -want +got:\n%s", diff)
		}
	}
	item := w.item(w.config(chart("hooks"), nil))
	mustRun(w.MustSucceed(item), `pre-install hook ConfigMap "shop-hooks-prepare"`, `pre-install hook ConfigMap "shop-hooks-migrate"`,
		`post-install hook ConfigMap "shop-hooks-announce"`)
	if diff := cmp.Diff([]string{"ConfigMap shop-hooks"}, w.managed(item)); diff != "" {
		t.Errorf("hooks are Helm's own affair: -want +got:\n%s", diff)
	}
	mustRun(w.MustDelete(item), `pre-delete hook ConfigMap "shop-hooks-drain"`, `post-delete hook ConfigMap "shop-hooks-farewell"`)
}

// TestHooksWithoutARelease: those of an installation are ordinary objects, and others are not created.
// Rule (helm.md#without-a-release): Hooks of an installation are ordinary objects, and other hooks are ignored.
func TestHooksWithoutARelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("hooks"), nil, withoutRelease))
	w.MustSucceed(item)
	want := []string{"shop-hooks", "shop-hooks-announce", "shop-hooks-migrate", "shop-hooks-prepare", "shop-hooks-refresh"}
	if diff := cmp.Diff(want, w.Names(configMaps, "")); diff != "" {
		t.Errorf("the objects: -want +got:\n%s", diff)
	}
	w.MustDelete(item)
	if got := w.Names(configMaps, ""); len(got) > 0 {
		t.Errorf("after the deletion there is still %v", got)
	}
}
