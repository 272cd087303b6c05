package apply_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
)

// TestSharedFields: with server-side apply, a field that has left the manifest and that another manager has too stays,
// and is named with the manager. Force removes it, in the same job or in a later one.
// Rule (manifest.md#update-strategies): A field no longer in the manifest and also set by another manager is named;
// `force` removes it.
func TestSharedFields(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"forced later": false, "forced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.strategy = byApply
			const keep, debug = `{name: KEEP, value: "1"}`, `{name: DEBUG, value: "1"}`
			w.mustRun(manifest(w.ConfigMap("web", fields{"keep": "1", "legacy": "1"})),
				manifest(withEnv(w.Deployment("web", 1), keep+", "+debug)))
			w.patchAs("another", configMaps, types.ApplyPatchType,
				`{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {legacy: "1"}}`)
			w.patchAs("another", deployments, types.ApplyPatchType, `{apiVersion: apps/v1, kind: Deployment,
				metadata: {name: web}, spec: {template: {spec: {containers: [{name: main, env: [`+debug+`]}]}}}}`)

			changed := func(options ...func(*desired.Manifest)) []desired.Manifest {
				return []desired.Manifest{
					manifest(w.ConfigMap("web", fields{"keep": "1"}), options...),
					manifest(withEnv(w.Deployment("web", 1), keep), options...),
				}
			}
			foresee := func(note string, all ...desired.Manifest) {
				t.Helper()
				for _, m := range all {
					w.mustForesee(sdk.ActionUpdate, note, m)
				}
			}
			if !early {
				foresee("(another)", changed()...)
				var told []string
				for _, r := range w.mustRun(changed()...).Retained {
					told = append(told, r.Shared...)
				}
				if !slices.Contains(told, "data.legacy (another)") || !slices.Contains(told,
					`spec.template.spec.containers[name="main"].env[name="DEBUG"].value (another)`) {
					t.Errorf("expected the fields to be named with their manager, but found %q", told)
				}
				w.mustShare("2 2")
				if again := w.mustSettle(changed()...); len(again.Retained) > 0 {
					t.Errorf("expected nothing more to be told, but found %+v", again.Retained)
				}
			}
			foresee("are removed, too", changed(force)...)
			w.mustRun(changed(force)...)
			w.mustShare("1 1")
			w.mustSettle(changed(force)...)
		})
	}
}

// mustShare checks how many keys the ConfigMap has, and how many variables the Deployment.
func (w *world) mustShare(want string) {
	w.Helper()
	data := object.Child(w.MustGet(configMaps, "web").Object, "data")
	if found := fmt.Sprint(len(data), len(envOf(w.MustGet(deployments, "web")).([]any))); found != want {
		w.Errorf("expected %s fields, but found %s", want, found)
	}
}

// TestSharedFieldsThatChange: what another manager has changed, or set anew, since the manifest has dropped it is its
// own.
// Rule (manifest.md#update-strategies): A shared field belongs to another manager after a change by that one.
func TestSharedFieldsThatChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.strategy = byApply
	w.mustRun(manifest(w.ConfigMap("web", fields{"keep": "1", "a.b": "1", "c": "1"})))
	theirs := func(data string) {
		w.patchAs("another", configMaps, types.ApplyPatchType,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: `+data+`}`)
	}
	theirs(`{a.b: "1", c: "1"}`)
	result := w.mustRun(manifest(w.ConfigMap("web", fields{"keep": "1"})))
	if len(result.Retained) != 1 || result.Retained[0].Path == nil {
		t.Errorf("expected two fields to be told, and how to remove them, but found %+v", result.Retained)
	}
	theirs(`{a.b: "2"}`)
	w.mustRun(manifest(w.ConfigMap("web", fields{"keep": "1"}), force))
	w.mustHave("web", fields{"keep": "1", "a.b": "2"})
}
