package helm3_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3"
	"github.com/pergola-deploy/pergola/test/charts"
)

// offline carries a request out that needs no cluster.
func offline(t *testing.T, r *helm.Request) (*helm.Result, error) {
	t.Helper()
	return helm3.New().Run(t.Context(), r, &audience{})
}

func render(t *testing.T, chart []byte, values fields) (*helm.Result, error) {
	t.Helper()
	r := request(t, chart, values)
	r.Action = helm.Render
	return offline(t, r)
}

// dataOf returns the data of the first object.
func dataOf(t *testing.T, result *helm.Result) map[string]any {
	t.Helper()
	var o struct{ Data map[string]any }
	if err := json.Unmarshal(result.Objects[0].JSON, &o); err != nil {
		t.Fatal(err)
	}
	return o.Data
}

const definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: "

func TestRender(t *testing.T) {
	t.Parallel()
	chart := charts.Pack("hooks", charts.File("templates/NOTES.txt", "notes: {{ .Release.Name }}"),
		charts.File("templates/about.yaml", `{{- if .Release.IsInstall }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: about
data:
  revision: {{ .Release.Revision | quote }}
  upgrade: {{ .Release.IsUpgrade | quote }}
  missing: {{ .Values.nothing }}
  found: {{ lookup "v1" "Namespace" "" "default" | len | quote }}
{{- end }}
---
# nothing but a comment
---
`), charts.File("crds/definition.yaml", definition+"a.b.c}\n"))
	result, err := render(t, chart, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := fields{"revision": "0", "upgrade": "false", "missing": nil, "found": "0"}
	if diff := cmp.Diff(want, dataOf(t, result)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(result.Objects) != 2 || len(result.Definitions) != 1 || result.Revision != 0 ||
		result.Definitions[0].Source != "hooks/crds/definition.yaml" {
		t.Errorf("expected two objects and a definition, but found %+v", result)
	}
	prepares := func(h helm.Hook) bool { return slices.Equal(h.Events, []string{"pre-install", "pre-upgrade"}) }
	if !slices.ContainsFunc(result.Hooks, prepares) {
		t.Errorf("expected a hook for two events, but found %v", result.Hooks)
	}
}

// What is read from a chart is what its dependencies leave: a sub-chart that is switched off defines nothing, nor do
// those below it, whether or not the values are checked with a schema.
// Rule (helm.md#releases): A switched-off subchart defines no kinds.
func TestDefinitionsOfSubcharts(t *testing.T) {
	t.Parallel()
	define := func(folder, name string) charts.Option {
		return charts.File(folder+"crds/definition.yaml", definition+name+"}\n")
	}
	chart := charts.Pack("parent", define("", "own"), define("charts/database/", "database"),
		define("charts/cache/", "cache"), define("charts/database/charts/disk/", "disk"),
		charts.File("charts/database/charts/disk/Chart.yaml", "apiVersion: v2\nname: disk\nversion: 1.0.0\n"))
	slow := fields{"speed": false}
	for name, c := range map[string]struct {
		values fields
		want   string
	}{
		"all":          {fields{}, "own cache database disk"},
		"condition":    {fields{"database": fields{"enabled": false}}, "own cache"},
		"tag":          {fields{"tags": slow}, "own database disk"},
		"only aliased": {fields{"tags": slow, "sessions": fields{"enabled": true}}, "own cache database disk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, skip := range []bool{false, true} {
				r := request(t, chart, c.values)
				r.Action, r.Options.SkipSchemaValidation = helm.Render, skip
				result, err := offline(t, r)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, d := range result.Definitions {
					var head struct{ Metadata struct{ Name string } }
					if err := json.Unmarshal(d.JSON, &head); err != nil {
						t.Fatal(err)
					}
					got = append(got, head.Metadata.Name)
				}
				slices.Sort(got[1:])
				if got := strings.Join(got, " "); got != c.want {
					t.Errorf("expected the definitions %s, but found %s", c.want, got)
				}
			}
		})
	}
}

func TestRenderWithCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	chart := charts.Pack("plain", charts.File("templates/about.yaml", `apiVersion: v1
kind: ConfigMap
metadata:
  name: about
data:
  found: {{ (lookup "v1" "Namespace" "" .Release.Namespace).metadata.name }}
  list: {{ len (lookup "v1" "ConfigMap" .Release.Namespace "").items | quote }}
  missing: {{ lookup "v1" "ConfigMap" .Release.Namespace "missing" | len | quote }}
  jobs: {{ .Capabilities.APIVersions.Has "batch/v1/Job" | quote }}
  version: {{ .Capabilities.KubeVersion.Minor | quote }}
`))
	r := w.request(chart, nil)
	r.Action = helm.Render
	w.audience.replace = func(_ context.Context, objects []helm.Object) ([]helm.Object, error) { return objects[:1], nil }
	result := w.mustRun(r)
	if len(result.Objects) != 1 {
		t.Errorf("expected what the observer returns, but found %+v", result.Objects)
	}
	about := dataOf(t, result)
	about["version"] = strings.TrimRight(about["version"].(string), "0123456789")
	want := fields{"found": w.Namespace, "list": "0", "missing": "0", "jobs": "true", "version": ""}
	if diff := cmp.Diff(want, about); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	w.mustNotWrite()
	w.mustHave()
}

func TestValues(t *testing.T) {
	t.Parallel()
	r := request(t, charts.Pack("parent"), fields{
		"global": fields{"zone": "south"}, "sessions": fields{"enabled": true}, "database": fields{"size": 7},
	})
	r.Action = helm.Values
	result, err := offline(t, r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(result.Values, &got); err != nil {
		t.Fatal(err)
	}
	global := fields{"zone": "south"}
	want := fields{
		"global": global, "tags": fields{"speed": true}, "address": "database:5432",
		"database": fields{
			"enabled": true, "size": 7.0, "global": global, "exports": fields{"endpoint": fields{"address": "database:5432"}},
		},
		"sessions": fields{"enabled": true, "megabytes": 16.0, "global": global},
		"cache":    fields{"megabytes": 64.0, "global": global},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values as templates see them: -want +got:\n%s", diff)
	}
	if result.Chart.Name != "parent" || len(result.Objects) > 0 {
		t.Errorf("expected the chart's name, but found %+v", result)
	}
}

// TestChartErrors: the error of a broken chart names the place and quotes no value, and nothing is written.
func TestChartErrors(t *testing.T) {
	t.Parallel()
	broken := charts.Pack("broken")
	with := func(name, content string) []byte { return charts.Pack("plain", charts.File(name, content)) }
	bad := func(document string) []byte { return with("templates/bad.yaml", "apiVersion: v1\nmetadata: "+document) }
	about := func(more string) []byte {
		return with("Chart.yaml", "apiVersion: v2\nname: plain\nversion: 1.0.0\n"+more+"\n")
	}
	for name, c := range map[string]struct {
		chart  []byte
		values fields
		kind   helm.Kind
		text   string
	}{
		"required": {
			broken, fields{"failure": "required"}, helm.RenderFailed,
			"(broken/templates/broken.yaml:9:12): owner is required: say who owns the shop",
		},
		"nil": {
			broken, fields{"failure": "nil"}, helm.RenderFailed,
			`broken/templates/broken.yaml:13:19: executing "broken/templates/broken.yaml" at ` +
				"<.Values.shop.owner.name>: nil pointer",
		},
		"function": {broken, fields{"failure": "function"}, helm.RenderFailed, "broken/templates/broken.yaml:15:"},
		"include":  {broken, fields{"failure": "include"}, helm.RenderFailed, "broken/templates/broken.yaml:17:"},
		"yaml": {
			broken, fields{"failure": "yaml"}, helm.RenderFailed, "YAML parse error on broken/templates/broken.yaml: ",
		},
		"duplicate": {
			broken, fields{"failure": "duplicate"}, helm.RenderFailed,
			`it renders ConfigMap "shop-broken", but broken/templates/broken.yaml has rendered it already`,
		},
		"syntax": {
			charts.Pack("broken", charts.SyntaxError()), nil, helm.RenderFailed,
			fmt.Sprintf("%s:%d): unexpected \"}\" in operand", charts.SyntaxTemplate, charts.SyntaxLine),
		},
		"no kind": {bad("{name: a}\ndata: {a: s3cretive}"), nil, helm.RenderFailed, "it has no kind"},
		"hook without a kind": {
			bad("{name: a, annotations: {helm.sh/hook: pre-install}}"), nil, helm.RenderFailed,
			"plain/templates/bad.yaml, document 1: ",
		},
		"bad definition": {
			with("crds/bad.yaml", "kind: [a"), nil, helm.ChartInvalid, "plain/crds/bad.yaml, document 1: it is no YAML",
		},
		"library": {about("type: library"), nil, helm.ChartInvalid, "only application charts can be installed"},
		"missing dependency": {
			about("dependencies: [{name: database, version: 1.0.0, repository: https://x}]"), nil, helm.ChartInvalid, "database",
		},
		"bad values": {with("values.yaml", "a: b\n c: d: e"), nil, helm.ChartInvalid, "values.yaml"},
		"schema": {
			charts.Pack("schema"), fields{"name": "S3cretive!", "copies": 9, "password": "short-secre"}, helm.ValuesInvalid,
			"the values do not fit the schema of the chart: schema: ",
		},
		"schema of a sub-chart": {
			charts.Pack("parent", charts.File("charts/database/values.schema.json", `{"properties":{"size":{"maximum":3}}}`)),
			nil, helm.ValuesInvalid, "database: - at '/size': maximum: got 5, want 3",
		},
		"kubeVersion": {
			about("kubeVersion: '>=9.0.0'"), nil, helm.ChartInvalid,
			"is made for the Kubernetes versions >=9.0.0, but the cluster has v",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, action := range []helm.Action{helm.Render, helm.Install} {
				r := w.request(c.chart, c.values)
				r.Action, r.Revision = action, 1
				e := w.mustFail(r, c.kind, c.text)
				w.mustHide(e.Message, "a-secret-of-the-chart", "S3cretive", "short-secre", "s3cretive")
			}
			w.mustHave()
			w.mustNotWrite()
		})
	}
}

// TestLimits: what is rendered is bounded, and hooks count.
// Rule (helm.md#for-operators): `limits.rendered` limits the output of the templates, hooks included.
func TestLimits(t *testing.T) {
	t.Parallel()
	hook := template("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {helm.sh/hook: pre-install}}\n" +
		"data: {a: {{ repeat 200000 \"x\" }}}")
	for _, chart := range [][]byte{charts.Pack("large"), hook} {
		w := newWorld(t)
		for _, action := range []helm.Action{helm.Render, helm.Install} {
			r := w.request(chart, nil)
			r.Action, r.Limits.RenderedBytes = action, 100_000
			w.mustFail(r, helm.LimitExceeded)
		}
		w.mustHave()
	}
}

// TestUnreadableFile: what is no fault of the chart is tried again.
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	for path, says := range map[string]string{
		filepath.Join(t.TempDir(), "missing"): "open the chart: no such file",
		t.TempDir():                           "read the chart: is a directory",
	} {
		r := request(t, plain, nil)
		r.Action, r.Chart.Path = helm.Render, path
		_, err := offline(t, r)
		mustBe(t, err, helm.ClusterFailed, says)
	}
}
