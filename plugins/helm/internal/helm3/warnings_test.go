package helm3_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3"
	"github.com/pergola-deploy/pergola/test/charts"
)

// warnings returns what is told when a chart is rendered. No other operation may be under way in the process, so the
// tests are not parallel.
func warnings(t *testing.T, chart []byte, values fields) []string {
	t.Helper()
	r, a := request(t, chart, values), &audience{}
	r.Action = helm.Render
	_, _ = helm3.New().Run(t.Context(), r, a) // a chart that cannot be rendered warns, too
	return a.warnings
}

// What Helm warns of reaches the user in one warning, without values, and the same each time.
// Rule (helm.md#the-helm-deployer): Warnings about a chart hold no values, and are bounded.
//
//nolint:paralleltest // see warnings
func TestChartWarnings(t *testing.T) {
	hook := func(events string) []byte {
		return template("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hook\n" +
			"  annotations: {helm.sh/hook: " + events + "}\n")
	}
	parent, password := charts.Pack("parent"), fields{"password": "pa55word", "colour": "s3cretive"}
	deprecated := charts.File("Chart.yaml", "apiVersion: v2\nname: plain\nversion: 1.0.0\ndeprecated: true\n")
	for name, c := range map[string]struct {
		chart  []byte
		values fields
		want   string
	}{
		"nothing":          {parent, nil, ""},
		"unknown hook":     {hook("pre-instal"), nil, `its annotation helm.sh/hook names an unknown hook: "pre-instal"`},
		"known hooks":      {hook(`"pre-install, crd-install"`), nil, `names an unknown hook: "pre-install, crd-install"`},
		"hook from values": {hook("{{ .Values.when }}"), fields{"when": "s3cretive"}, `unknown hook: "***"`},
		"condition": {
			parent, fields{"database": fields{"enabled": "false"}},
			"Condition path 'database.enabled' for chart database returned non-bool value",
		},
		"text for a table": {
			plain, fields{"settings": fields{"colour": password}},
			"destination for plain.settings.colour is a table. Ignoring non-table value",
		},
		"chart that fails": {charts.Pack("broken"), fields{"failure": "fail", "tags": 1}, ""},
		"deprecated":       {charts.Pack("plain", deprecated), nil, "chart plain 1.0.0 is deprecated"},
	} {
		t.Run(name, func(t *testing.T) {
			all := warnings(t, c.chart, c.values)
			got := strings.Join(all, "\n")
			if c.want == "" && len(all) > 0 || c.want != "" && (len(all) != 1 || !strings.Contains(got, c.want) ||
				!strings.HasPrefix(got, "ChartWarning: Helm warns: ")) {
				t.Errorf("expected one warning with %q, but found %q", c.want, all)
			}
			for _, secret := range []string{"pa55word", "s3cretive", "blue"} {
				if strings.Contains(got, secret) {
					t.Errorf("a value is shown: %q", got)
				}
			}
		})
	}
}

// Warnings are bounded.
//
//nolint:paralleltest // see warnings
func TestChartWarningsAreBounded(t *testing.T) {
	defaults, tables := "", fields{}
	for i := range 500 {
		key := fmt.Sprintf("%03d%s", i, strings.Repeat("k", 300))
		defaults += key + ": text\n"
		tables[key] = fields{"a": "b"}
	}
	got := warnings(t, charts.Pack("plain", charts.File("values.yaml", defaults)), tables)
	if len(got) != 1 || len(got[0]) > 1200 || !strings.HasSuffix(got[0], "; and 95 more") {
		t.Errorf("expected one short warning, but found %q", got)
	}
	several := fields{"database": fields{"enabled": "a"}, "sessions": fields{"enabled": "b"}, "tags": fields{"speed": "c"}}
	first := warnings(t, charts.Pack("parent"), several)
	for range 5 {
		if diff := cmp.Diff(first, warnings(t, charts.Pack("parent"), several)); diff != "" {
			t.Errorf("the warning is another one the next time (-before +after):\n%s", diff)
		}
	}
}
