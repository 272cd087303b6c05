package deployer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
)

// Rule (manifest.md#the-manifest-deployer): All errors of a configuration are reported at once, before anything is
// changed.
func TestBadConfigurations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.configMap("a", nil)
	one := func(m object) object { return with(config(), "manifests", []any{m}) }
	v1alpha1 := func(manifests ...any) object {
		return object{
			"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration", "manifests": manifests,
		}
	}
	for name, c := range map[string]struct {
		reason string
		config object
		want   []string
	}{
		"version": {
			reason: "the accepted versions are named",
			config: object{"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1", "kind": "ProviderConfiguration"},
			want:   []string{"/v1alpha2", "/v1alpha1", `found kind "ProviderConfiguration"`},
		},
		"unknown fields": {
			reason: "decoding is strict, and all unknown fields are reported",
			config: with(one(object{"manifest": good, "polici": "manage"}), "upDateStrategy", "update"),
			want:   []string{`unknown field "manifests[0].polici"`, `unknown field "upDateStrategy"`},
		},
		"types": {
			reason: "all of them come at once, with unknown fields and bad values",
			config: with(one(object{"manifest": good, "policy": 5, "polici": "manage"}), "updateStrategy", "never"),
			want: []string{
				"manifests[0].policy: expected a text, but found a number", `unknown field "manifests[0].polici"`, "updateStrategy: Unsupported value",
			},
		},
		"listed exports": {
			reason: "the other form of exports is decoded strictly, too, and has its own paths",
			config: with(config(good), "exports", []any{object{"key": "", "path": ".x"}}),
			want:   []string{`unknown field "exports[0].path"`, "exports[0].key: Required"},
		},
		"manifests": {
			reason: "all problems come at once, each with its path",
			config: with(config(), "manifests", []any{
				object{"policy": "manage"},
				object{"manifest": object{}},
				object{"manifest": object{"kind": "ConfigMap", "metadata": object{"name": "a"}}, "policy": "own"},
				object{"manifest": object{"apiVersion": "v1", "metadata": object{"labels": object{"a": 1}}}},
				object{"manifest": good},
				object{"manifest": object{"kind": "List", "apiVersion": "v1", "items": []any{good, nil}}},
			}),
			want: []string{
				"manifests[0].manifest: Required", "manifests[1].manifest: Required",
				"manifests[2].policy: Unsupported", "manifests[2].manifest.apiVersion: Required",
				"manifests[3].manifest.kind: Required", "manifests[3].manifest.metadata.name: Required", "manifests[3].manifest.metadata.labels[a]",
				"manifests[5].manifest.items[0]: Invalid value: ConfigMap " + w.Namespace + "/a is already in manifests[4].manifest",
				"manifests[5].manifest.items[1]: Required",
			},
		},
		"manifests of v1alpha1": {
			reason: "the paths are those of the document as it was written",
			config: v1alpha1(good, nil, good),
			want:   []string{"manifests[1]: Required", "manifests[2]: Invalid value: ConfigMap " + w.Namespace + "/a is already in manifests[0]"},
		},
		"strategies": {
			reason: "an unknown strategy is not an unsupported one",
			config: with(config(good), "updateStrategy", "replace"),
			want:   []string{`updateStrategy: Unsupported value: "replace"`, `"mergeOverwrite"`},
		},
		"everything else": {
			reason: "what other packages read is reported with the rest",
			config: object{
				"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderConfiguration",
				"readinessChecks":            object{"custom": []any{object{"name": "x", "requirements": []any{}}}},
				"deletionGroups":             []any{object{}},
				"deletionGroupsDuringUpdate": []any{object{}},
				"manifests": []any{
					object{"manifest": good, "force": true, "patchAfterDeployment": "a", "patchBeforeDelete": []any{}},
				},
				"exports":             object{"defaultTimeout": "soon"},
				"continuousReconcile": object{"every": "1h", "cron": "@daily"},
			},
			want: []string{
				"readinessChecks.custom[0]", "deletionGroups[0]", "deletionGroupsDuringUpdate[0]",
				`manifests[0].force: Forbidden: has a meaning only with updateStrategy "apply"`,
				"continuousReconcile: Invalid",
				"manifests[0].patchAfterDeployment: Invalid", "manifests[0].patchBeforeDelete: Invalid", "exports.defaultTimeout: Invalid",
			},
		},
		"cron": {
			reason: "the field is named, what was found and what is expected",
			config: with(config(good), "continuousReconcile", object{"cron": "0 25 * * *"}),
			want:   []string{"continuousReconcile.cron: Invalid", "0 25 * * *", "five cron fields"},
		},
		"schedule of v1alpha1": {
			reason: "the older form has no schedules",
			config: with(v1alpha1(good), "continuousReconcile", object{"every": "1h"}),
			want:   []string{`unknown field "continuousReconcile"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			result := w.Do(plugintest.Reconcile, w.item(c.config))
			w.MustFail(result, plugintest.ConfigurationProblem, append(c.want, "spec.config")...)
			if t.Failed() {
				t.Log(c.reason)
			}
		})
	}
	if got := w.Requests.Take(); len(got) > 0 {
		t.Errorf("expected no request for a bad configuration, but found %v", got)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(with(config(w.configMap("a", nil)), "updateStrategy", "replace"))
	problems, err := w.Plugin.Validate(t.Context(), item.Spec.Type, item.Spec.Config.Raw)
	if err != nil {
		t.Fatal(err)
	}
	want := []sdk.Problem{{
		Field: "updateStrategy", Message: `Unsupported value: "replace": supported values: "update", "patch", "merge", "mergeOverwrite", "apply"`,
	}}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	problems, err = w.Plugin.Validate(t.Context(), item.Spec.Type, []byte(`{"kind":"x"}`))
	if err != nil || len(problems) != 1 || problems[0].Field != "spec.config" {
		t.Errorf("expected one problem of spec.config, but found %v and %v", problems, err)
	}
}
