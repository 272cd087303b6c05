package config_test

import (
	"encoding/json"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/test/cases"
)

func TestExportValues(t *testing.T) {
	t.Parallel()
	values := json.RawMessage(
		`{"image":{"tag":"1.2"},"replicas":3,"secret":"hunter2","none":null,"list":[{"a":1},{"a":2}]}`)
	cases.Run(t, "testdata/cases/exports.yaml", func(t *testing.T, c struct {
		Exports []any
		Before  object
		Want    json.RawMessage
		Says    []string
	},
	) {
		wanted := mustRead(t, shop(object{"exports": c.Exports})).ValueExports
		before := string(mustMarshal(t, c.Before))
		got, err := config.ExportValues(wanted, values, c.Before)
		if c.Says != nil {
			mustBeConfigurationProblem(t, err, append(c.Says, "spec.config")...)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		isSame(t, "exports", string(c.Want), string(mustMarshal(t, got)))
		isSame(t, "the exports that were given", before, string(mustMarshal(t, c.Before)))
	})
}

func TestExportValuesOfNoChart(t *testing.T) {
	t.Parallel()
	wanted := mustRead(t, shop(object{"exports": []any{object{"key": "a", "jsonPath": ".Values.a"}}})).ValueExports
	_, err := config.ExportValues(wanted, nil, nil)
	mustBeConfigurationProblem(t, err, `export "a"`)
	if _, err := config.ExportValues(wanted, json.RawMessage(`["hunter2"`), nil); err == nil {
		t.Error("expected an error for values that cannot be read")
	}
}
