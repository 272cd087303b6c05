package deployer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

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
		"kind": {
			reason: "the accepted kind is named",
			config: object{"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "Configuration"},
			want:   []string{"expected kind ProviderConfiguration", `found kind "Configuration"`},
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
		"unknown field of a listed export": {
			reason: "the other form of exports is decoded strictly, too",
			config: with(config(good), "exports", []any{object{"key": "a", "path": ".x"}}),
			want:   []string{`unknown field "exports[0].path"`},
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
				"exports": object{"defaultTimeout": "soon"},
			},
			want: []string{
				"readinessChecks.custom[0]", "deletionGroups[0]", "deletionGroupsDuringUpdate[0]",
				`manifests[0].force: Forbidden: has a meaning only with updateStrategy "apply"`,
				"manifests[0].patchAfterDeployment: Invalid", "manifests[0].patchBeforeDelete: Invalid", "exports.defaultTimeout: Invalid",
			},
		},
		"exports": {
			reason: "exports are checked before anything is applied",
			config: with(config(good), "exports", []any{
				object{"key": "", "jsonPath": "{.a"},
				object{"key": "a..b", "jsonPath": "", "fromResource": object{}},
				export("x.y", ".a", "", "a"), export("x", ".a", "", "a"),
			}),
			want: []string{
				"exports[0].key: Required", "exports[0].jsonPath: Invalid", "exports[0].fromResource: Required",
				"exports[1].key: Invalid", "exports[1].jsonPath: Invalid", "exports[1].fromResource.kind: Required",
				"exports[3].key", `beside "x.y" of exports[2]`,
			},
		},
		"both schedules": {
			reason: "one of the two at most is allowed",
			config: with(config(good), "continuousReconcile", object{"every": "1h", "cron": "@daily"}),
			want:   []string{"continuousReconcile: Invalid", "both"},
		},
		"interval": {
			reason: "an interval is positive",
			config: with(config(good), "continuousReconcile", object{"every": "-1h"}),
			want:   []string{"continuousReconcile.every: Invalid", "-1h", "at least 1s"},
		},
		"cron": {
			reason: "the field is named, what was found and what is expected",
			config: with(config(good), "continuousReconcile", object{"cron": "0 25 * * *"}),
			want:   []string{"continuousReconcile.cron: Invalid", "0 25 * * *", "five cron fields"},
		},
		"zone": {
			reason: "a zone without times is a mistake and no crash",
			config: with(config(good), "continuousReconcile", object{"cron": "TZ=UTC"}),
			want:   []string{"continuousReconcile.cron: Invalid", "TZ=UTC"},
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

func TestBadTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	for name, c := range map[string]struct {
		reason string
		target *sdk.Target
		want   string
	}{
		"none":     {reason: "the deployer needs a target", want: "spec.target"},
		"empty":    {reason: "the target must hold a kubeconfig", target: &sdk.Target{Name: "t", Content: []byte(`{}`)}, want: `"t"`},
		"nonsense": {reason: "a kubeconfig is not quoted", target: &sdk.Target{Name: "t", Content: []byte(`{"kubeconfig":"hunter2: ["}`)}, want: `"t"`},
	} {
		t.Run(name, func(t *testing.T) {
			result := w.Plugin.Reconcile(t.Context(), sdktest.Call{DeployItem: item, Target: c.target})
			if result.Failed == nil || !strings.Contains(result.Failed.Error(), c.want) || strings.Contains(result.Failed.Error(), "hunter2") {
				t.Errorf("%s: expected a failure with %q, but found: %s", c.reason, c.want, result)
			}
			if diff := cmp.Diff([]landscaper.ErrorCode{landscaper.ErrorConfigurationProblem}, result.Failed.Codes()); diff != "" {
				t.Errorf("%s: codes: -want +got:\n%s", c.reason, diff)
			}
		})
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
