package config_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	resource := object{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}
	for name, tc := range map[string]struct {
		reason  string
		config  object
		lenient bool
		want    []string
	}{
		"version": {
			reason: "the accepted version is named", config: shop(object{"apiVersion": "helm.deployer.landscaper.gardener.cloud/v1"}),
			want: []string{"expected kind ProviderConfiguration of apiVersion helm.deployer.landscaper.gardener.cloud/v1alpha1", `gardener.cloud/v1"`},
		},
		"kind": {reason: "the accepted kind is named", config: shop(object{"kind": "Configuration"}), want: []string{`found kind "Configuration"`}},
		"unknown field of a listed export": {
			reason: "the other form of exports is decoded strictly, too", config: shop(object{"exports": []any{object{"key": "a", "path": ".x"}}}),
			want: []string{`unknown field "exports[0].path"`},
		},
		"types": {
			reason: "all of them come at once, with unknown fields and bad values",
			config: shop(object{
				"createNamespace": "yes", "namespace": 5, "values": []any{"hunter2"}, "foo": 1, "updateStrategy": "never", "name": "Shop",
				"helmDeploymentConfig": object{"install": object{"timeout": "soon", "wait": "hunter2", "atomik": true}},
			}),
			want: []string{
				"createNamespace: expected true or false, but found a text", "namespace: expected a text, but found a number",
				"values: Invalid value: expected an object, but found a list", `unknown field "foo"`, "updateStrategy: Unsupported value",
				"name: Invalid value", "helmDeploymentConfig.install.timeout: Invalid value",
				"helmDeploymentConfig.install.wait: expected true or false, but found a text",
				"helmDeploymentConfig.install.atomik: Forbidden: there is no such option",
			},
		},
		"nothing": {
			reason: "everything that is missing is told at once", config: shop(object{"chart": object{}, "name": nil, "namespace": nil}),
			want: []string{"chart: Required value", "name: Required value: expected the name of the release", "namespace: Required value"},
		},
		"two sources": {
			reason: "a chart comes from one place", config: shop(object{"chart": object{"ref": "a/b:1", "archive": object{"raw": gzipped}}}),
			want: []string{"chart: Forbidden: chart.ref and chart.archive are set"},
		},
		"names": {
			reason: "no release has such a name", config: shop(object{"name": "Shop", "namespace": "a.b"}),
			want: []string{`name: Invalid value: "Shop": a lowercase RFC 1123 subdomain`, `namespace: Invalid value: "a.b": must not contain dots`},
		},
		"text as values": {
			reason: "people write values as a text by mistake", config: shop(object{"values": "password: hunter2"}),
			want: []string{"values: Invalid value: expected an object, but found a text"},
		},
		"options": {
			reason: "an option that there is not is an error, also for who passes over unknown fields", lenient: true,
			config: shop(object{"helmDeploymentConfig": object{
				"install": object{"atomik": true, "wait": true}, "upgrade": object{"Atomic": true, "maxHistory": 1}, "uninstall": object{"atomic": true},
			}}),
			want: []string{
				"helmDeploymentConfig.install.atomik: Forbidden: there is no such option; expected one of atomic, force, skipSchemaValidation, takeOwnership, timeout, wait",
				"helmDeploymentConfig.upgrade.Atomic: Forbidden", "helmDeploymentConfig.upgrade.maxHistory: Forbidden",
				"helmDeploymentConfig.uninstall.atomic: Forbidden: there is no such option; expected one of disableHooks, timeout, wait",
			},
		},
		"everything else": {
			reason: "what other packages read is reported with the rest",
			config: shop(object{
				"updateStrategy":  "replace",
				"readinessChecks": object{"custom": []any{object{"name": "x", "requirements": []any{}}}},
				"deletionGroups":  []any{object{}}, "deletionGroupsDuringUpdate": []any{object{}},
				"continuousReconcile": object{"every": "1h", "cron": "@daily"}, "exports": object{"defaultTimeout": "soon"},
			}),
			want: []string{
				`updateStrategy: Unsupported value: "replace"`, "readinessChecks.custom[0]", "deletionGroups[0]", "deletionGroupsDuringUpdate[0]",
				"continuousReconcile: Invalid", "exports.defaultTimeout: Invalid",
			},
		},
		"exports": {
			reason: "exports are checked before anything is deployed",
			config: shop(object{"exports": []any{
				object{"key": "", "jsonPath": "{.a"},
				object{"key": "a..b", "jsonPath": "", "fromResource": object{}},
				object{"key": "x.y", "jsonPath": ".Values.a"}, object{"key": "x", "jsonPath": ".a", "fromResource": resource},
			}}),
			want: []string{
				"exports[0].key: Required", "exports[0].jsonPath: Invalid", "exports[1].key: Invalid", "exports[1].jsonPath: Invalid",
				"exports[1].fromResource.kind: Required", "exports[3].key", `beside "x.y" of exports[2]`,
			},
		},
		"both lists of exports": {
			reason: "one key is one value, also over both lists",
			config: shop(object{
				"exports":              object{"exports": []any{object{"key": "a.b", "jsonPath": ".Values.a"}, object{"key": "c", "jsonPath": ".x", "fromResource": resource}}},
				"exportsFromManifests": []any{object{"key": "a", "jsonPath": ".Values.a"}, object{"key": "c", "jsonPath": ".Values.a"}, object{"key": "d", "jsonPath": ".Values.a"}},
			}),
			want: []string{
				`exportsFromManifests[0].key: Invalid value: "a": cannot be exported beside "a.b" of exports`,
				`exportsFromManifests[1].key: Invalid value: "c": cannot be exported beside "c" of exports`,
			},
		},
		"value of an object": {
			reason: "a value is not read from an object, so that another one would be exported than was meant",
			config: shop(object{"exports": []any{object{
				"key": "a", "jsonPath": ".Values.a", "targetName": "other", "fromObjectRef": object{"apiVersion": "v1", "kind": "Secret", "jsonPath": ".data"},
			}}}),
			want: []string{"exports[0].fromObjectRef: Forbidden: needs fromResource", "exports[0].targetName: Forbidden: needs fromResource"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Read(request(t, tc.config), !tc.lenient)
			mustBeConfigurationProblem(t, err, append(tc.want, "spec.config")...)
			checkValidate(t, tc.config, !tc.lenient, err)
			if t.Failed() {
				t.Log(tc.reason)
			}
		})
	}
}

// TestReadRefusesOnce: what follows from a mistake is not told beside it.
func TestReadRefusesOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason  string
		changes object
		want    string
	}{
		"required": {
			reason: "a text that is none is not missing", changes: object{"name": 5, "namespace": object{}},
			want: "name: expected a text, but found a number; namespace: expected a text, but found an object",
		},
		"presence": {
			reason:  "what is there is there, whatever it is",
			changes: object{"exports": []any{object{"key": "a", "jsonPath": ".x", "fromResource": "service", "targetName": "b"}}},
			want:    "exports[0].fromResource: expected an object, but found a text",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := shop(tc.changes)
			_, err := config.Read(request(t, c), true)
			if err == nil || err.Error() != "spec.config: "+tc.want {
				t.Errorf("%s: expected %s, but found %v", tc.reason, tc.want, err)
			}
			checkValidate(t, c, true, err)
		})
	}
}

func mustBeConfigurationProblem(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("expected an error")
	}
	if !slices.Contains(sdk.Codes(err), landscaper.ErrorConfigurationProblem) {
		t.Errorf("expected a configuration problem, but found codes %v", sdk.Codes(err))
	}
	var known *sdk.Error
	if !errors.As(err, &known) || known.Reason == "" {
		t.Errorf("expected an error with a reason, but found %#v", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("expected an error with %q, but found: %v", text, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error repeats a value: %v", err)
	}
}

// checkValidate holds what Validate says against what Read says.
func checkValidate(t *testing.T, c object, strict bool, wrong error) {
	t.Helper()
	document, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := config.Validate(document, strict)
	if err != nil {
		t.Fatal(err)
	}
	if (len(problems) > 0) != (wrong != nil) {
		t.Errorf("expected Validate to agree with the error %v, but found %v", wrong, problems)
	}
	for _, p := range problems {
		if p.Field == "" || p.Message == "" || !strings.Contains(wrong.Error(), p.Message) {
			t.Errorf("expected a part of the error %v, but found %+v", wrong, p)
		}
	}
}
