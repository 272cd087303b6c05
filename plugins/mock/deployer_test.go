package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/configtest"
)

func newPlugin(t *testing.T) *sdktest.Plugin {
	t.Helper()
	return sdktest.New(t, &deployer{}, options()...)
}

// call has an item with fields of the configuration as JSON, such as `"phase": "Failed"`.
func call(fields ...string) sdktest.Call {
	fields = append(fields, fmt.Sprintf(`"kind": %q`, mockv1alpha1.Kind))
	if !strings.HasPrefix(fields[0], `"apiVersion"`) {
		fields = append(fields, fmt.Sprintf(`"apiVersion": %q`, mockv1alpha1.GroupVersion))
	}
	config := json.RawMessage("{" + strings.Join(fields, ",") + "}")
	return sdktest.Call{DeployItem: sdktest.DeployItem(mockv1alpha1.Type, config)}
}

const (
	status      = `{"apiVersion":"example.org/v1","kind":"Status","note":1}`
	withStatus  = `"providerStatus": ` + status
	withExports = `"export": {"a":{"b":true}}`
)

func TestConformance(t *testing.T) {
	sdktest.Conform(t, newPlugin(t), sdktest.Case{Name: "without a field", Call: call()},
		sdktest.Case{Name: "with a provider status and exports", Call: call(withStatus, withExports)})
}

func TestReconcile(t *testing.T) {
	type want struct {
		Succeeded, InProgress bool
		Exports               map[string]any
		Status                string
		Reason, Mentions      string
	}
	const invalid = sdk.ReasonConfigInvalid
	exports := map[string]any{"a": map[string]any{"b": true}}
	plugin := newPlugin(t)
	for name, c := range map[string]struct {
		call sdktest.Call
		want want
	}{
		"nothing": {call(), want{Succeeded: true}},
		"succeeded": {
			call(`"phase": "Succeeded"`, withStatus, withExports), want{Succeeded: true, Exports: exports, Status: status},
		},
		"failed": {
			call(`"phase": "Failed"`, withStatus), want{Reason: "MockFailed", Mentions: "Failed", Status: status},
		},
		"progressing":           {call(`"phase": "Progressing"`), want{InProgress: true}},
		"initial phase":         {call(`"initialPhase": "Init"`), want{InProgress: true}},
		"phase wins":            {call(`"initialPhase": "Init"`, `"phase": "Succeeded"`), want{Succeeded: true}},
		"no phase":              {call(`"phase": "Finished"`), want{Reason: invalid, Mentions: "Finished"}},
		"exports are no object": {call(`"export": [1]`), want{Reason: invalid, Mentions: "spec.config.export"}},
		"another version":       {call(`"apiVersion": "x/v1"`), want{Reason: invalid, Mentions: mockv1alpha1.GroupVersion}},
	} {
		t.Run(name, func(t *testing.T) {
			result := plugin.Reconcile(t.Context(), c.call)
			got := want{InProgress: result.InProgress != nil, Status: string(result.ProviderStatus)}
			if result.Succeeded != nil {
				got.Succeeded, got.Exports = true, result.Succeeded.Exports
			}
			if result.Failed != nil {
				got.Reason = result.Failed.Errors[0].Reason
				if strings.Contains(result.Failed.Errors[0].Message, c.want.Mentions) {
					got.Mentions = c.want.Mentions
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s\n%s", diff, result)
			}
		})
	}
}

// The published schema accepts and refuses the same configurations as the deployer.
func TestSchema(t *testing.T) {
	published := configtest.NewSchema(newPlugin(t).Info().ProviderConfigSchemas[mockv1alpha1.Type])
	validate := func(fields ...string) error { return published.Validate(t, call(fields...).DeployItem.Spec.Config.Raw) }
	if err := validate(withStatus, withExports, `"phase": "Succeeded"`, `"initialPhase": "Progressing"`,
		`"continuousReconcile": {"every": "1h"}`); err != nil {
		t.Errorf("expected the schema to accept all fields, but found %v", err)
	}
	for _, field := range []string{`"phase": true`, `"export": "text"`, `"unknown": "text"`} {
		if validate(field) == nil {
			t.Errorf("expected the schema to refuse %s", field)
		}
	}
}

func scheduled(fields string) *v1alpha1.DeployItem {
	return call(`"continuousReconcile": ` + fields).DeployItem
}
