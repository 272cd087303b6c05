package deployer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

func TestCapabilities(t *testing.T) {
	t.Parallel()
	got := newWorld(t).Plugin.Info().Capabilities
	want := sdktest.Capabilities{
		ForceReconcile: true, Render: true, Diff: true, Validate: true, Configure: true, Watch: true, ContextCredentials: true,
		Hooks: []hook.Type{hook.ShouldReconcile},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestHooksOfTheChart: with a release they run by weight, for their events, and what their policies say becomes of them.
func TestHooksOfTheChart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ran := func(result *sdktest.Result) []string {
		var all []string
		for _, m := range result.Messages {
			if m.Progress != nil && m.Progress.Step == "RunHook" {
				all = append(all, m.Progress.Message)
			}
		}
		return all
	}
	item := w.item(w.config(chart("hooks"), nil))
	for _, c := range []struct {
		does string
		do   func() *sdktest.Result
		want []string
		left []string
	}{
		{
			does: "installation", do: func() *sdktest.Result { return w.MustSucceed(item) },
			want: []string{
				`pre-install hook ConfigMap "shop-hooks-prepare" of hooks/templates/hooks.yaml`,
				`pre-install hook ConfigMap "shop-hooks-migrate" of hooks/templates/hooks.yaml`,
				`post-install hook ConfigMap "shop-hooks-announce" of hooks/templates/hooks.yaml`,
			},
			left: []string{"shop-hooks", "shop-hooks-announce", "shop-hooks-prepare"},
		},
		{
			does: "upgrade", do: func() *sdktest.Result {
				w.setConfig(item, w.config(chart("hooks"), object{"greeting": "two"}))
				return w.MustSucceed(item)
			},
			want: []string{
				`pre-upgrade hook ConfigMap "shop-hooks-prepare" of hooks/templates/hooks.yaml`,
				`pre-upgrade hook ConfigMap "shop-hooks-migrate" of hooks/templates/hooks.yaml`,
				`post-upgrade hook ConfigMap "shop-hooks-refresh" of hooks/templates/hooks.yaml`,
			},
			left: []string{"shop-hooks", "shop-hooks-announce", "shop-hooks-prepare", "shop-hooks-refresh"},
		},
		{
			does: "deletion", do: func() *sdktest.Result { return w.MustDelete(item) },
			want: []string{
				`pre-delete hook ConfigMap "shop-hooks-drain" of hooks/templates/hooks.yaml`,
				`post-delete hook ConfigMap "shop-hooks-farewell" of hooks/templates/hooks.yaml`,
			},
			left: []string{"shop-hooks-announce", "shop-hooks-drain", "shop-hooks-farewell", "shop-hooks-prepare", "shop-hooks-refresh"},
		},
	} {
		if diff := cmp.Diff(c.want, ran(c.do())); diff != "" {
			t.Errorf("%s: the hooks: -want +got:\n%s", c.does, diff)
		}
		if diff := cmp.Diff(c.left, w.Names(configMaps, "")); diff != "" {
			t.Errorf("%s: the objects: -want +got:\n%s", c.does, diff)
		}
	}
}
