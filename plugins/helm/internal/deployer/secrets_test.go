package deployer_test

import (
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// TestSecretsInErrors: what the API server quotes of an object that it refuses may be a secret.
// Rule (helm.md#security): Errors hide an API server's quotes of an object.
func TestSecretsInErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, template string
	}{
		"value": {
			reason: "a string of the item's values", template: `apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {type: {{ .Values.password }}, ports: [{port: 80}]}
`,
		},
		"number": {
			reason: "a password without quotes", template: `apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {ports: [{port: {{ .Values.pin }}}]}
`,
		},
		"Secret of the chart": {
			reason: "what the chart makes a secret of", template: `apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}, annotations: {"a key": x}}
stringData: {password: made-by-the-chart}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {type: made-by-the-chart, ports: [{port: 80}]}
`,
		},
	} {
		for mode, fields := range map[string]object{"with a release": {}, "without": withoutRelease} {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				values := object{"password": "my-own-secret", "pin": 12345678}
				item := w.item(w.config(chart("plain", charts.File("templates/bad.yaml", c.template)), values, fields))
				result := w.Do(plugintest.Reconcile, item)
				w.MustFail(result, plugintest.ConfigurationProblem, "plain/templates/bad.yaml", "Service")
				w.mustHide(result, "my-own-secret", "12345678", "made-by-the-chart")
				if t.Failed() {
					t.Log(c.reason)
				}
				w.MustDelete(item)
			})
		}
	}
}
