package helm3_test

import (
	"context"
	"encoding/json"
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
`), charts.File("crds/definition.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b.c}\n"))
	result, err := render(t, chart, nil)
	if err != nil {
		t.Fatal(err)
	}
	type data struct {
		Data map[string]any `json:"data"`
	}
	var about data
	if err := json.Unmarshal(result.Objects[0].JSON, &about); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"revision": "0", "upgrade": "false", "missing": nil, "found": "0"}, about.Data); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(result.Objects) != 2 || len(result.Definitions) != 1 || result.Definitions[0].Source != "hooks/crds/definition.yaml" || result.Revision != 0 {
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
		return charts.File(folder+"crds/definition.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: "+name+"}\n")
	}
	chart := charts.Pack("parent", define("", "own"), define("charts/database/", "database"), define("charts/cache/", "cache"),
		charts.File("charts/database/charts/disk/Chart.yaml", "apiVersion: v2\nname: disk\nversion: 1.0.0\n"),
		define("charts/database/charts/disk/", "disk"))
	for name, test := range map[string]struct {
		values fields
		want   []string
	}{
		"all":          {values: fields{}, want: []string{"own", "cache", "database", "disk"}},
		"condition":    {values: fields{"database": fields{"enabled": false}}, want: []string{"own", "cache"}},
		"tag":          {values: fields{"tags": fields{"speed": false}}, want: []string{"own", "database", "disk"}},
		"only aliased": {values: fields{"tags": fields{"speed": false}, "sessions": fields{"enabled": true}}, want: []string{"own", "cache", "database", "disk"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, skip := range []bool{false, true} {
				r := request(t, chart, test.values)
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
				if !slices.Equal(got, test.want) {
					t.Errorf("expected the definitions %v, but found %v", test.want, got)
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
	var about struct {
		Data map[string]string `json:"data"`
	}
	if err := json.Unmarshal(result.Objects[0].JSON, &about); err != nil {
		t.Fatal(err)
	}
	about.Data["version"] = strings.TrimRight(about.Data["version"], "0123456789")
	if diff := cmp.Diff(map[string]string{"found": w.Namespace, "list": "0", "missing": "0", "jobs": "true", "version": ""}, about.Data); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, request := range w.Requests.Take() {
		if !strings.HasPrefix(request, "GET ") {
			t.Errorf("expected no write, but found %s", request)
		}
	}
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
		"database": fields{"enabled": true, "size": 7.0, "global": global, "exports": fields{"endpoint": fields{"address": "database:5432"}}},
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

func TestChartErrors(t *testing.T) {
	t.Parallel()
	broken := func(failure string) ([]byte, fields) { return charts.Pack("broken"), fields{"failure": failure} }
	with := func(name, content string) func() ([]byte, fields) {
		return func() ([]byte, fields) { return charts.Pack("plain", charts.File(name, content)), nil }
	}
	about := "apiVersion: v2\nname: plain\nversion: 1.0.0\n"
	for name, c := range map[string]struct {
		reason string
		chart  func() ([]byte, fields)
		kind   helm.Kind
		text   string
	}{
		"required": {
			reason: "the author's words", chart: func() ([]byte, fields) { return broken("required") },
			kind: helm.RenderFailed,
			text: "(broken/templates/broken.yaml:9:12): owner is required: say who owns the shop",
		},
		"nil": {
			reason: "the expression", chart: func() ([]byte, fields) { return broken("nil") },
			kind: helm.RenderFailed,
			text: `broken/templates/broken.yaml:13:19: executing "broken/templates/broken.yaml" at <.Values.shop.owner.name>: nil pointer`,
		},
		"syntax": {
			reason: "what cannot be parsed",
			chart:  func() ([]byte, fields) { return charts.Pack("broken", charts.SyntaxError()), nil },
			kind:   helm.RenderFailed, text: `unexpected "}" in operand`,
		},
		"yaml": {
			reason: "Helm's words", chart: func() ([]byte, fields) { return broken("yaml") },
			kind: helm.RenderFailed, text: "YAML parse error on broken/templates/broken.yaml: ",
		},
		"duplicate": {
			reason: "the second one cannot be created", chart: func() ([]byte, fields) { return broken("duplicate") },
			kind: helm.RenderFailed,
			text: `it renders ConfigMap "shop-broken", but broken/templates/broken.yaml has rendered it already`,
		},
		"no kind": {
			reason: "Helm would quote all of it",
			chart:  with("templates/bad.yaml", "apiVersion: v1\nmetadata: {name: a}\ndata: {a: s3cretive}"),
			kind:   helm.RenderFailed, text: "it has no kind",
		},
		"hook without a kind": {
			reason: "hooks are looked at as well", kind: helm.RenderFailed,
			text:  "plain/templates/bad.yaml, document 1: ",
			chart: with("templates/bad.yaml", "apiVersion: v1\nmetadata: {name: a, annotations: {helm.sh/hook: pre-install}}"),
		},
		"bad definition": {
			reason: "the folder crds has no templates", chart: with("crds/bad.yaml", "kind: [a"),
			kind: helm.ChartInvalid, text: "plain/crds/bad.yaml, document 1: it is no YAML",
		},
		"library": {
			reason: "Helm refuses it, too", chart: with("Chart.yaml", about+"type: library\n"),
			kind: helm.ChartInvalid, text: "only application charts can be installed",
		},
		"missing dependency": {
			reason: "nothing is downloaded",
			chart:  with("Chart.yaml", about+"dependencies: [{name: database, version: 1.0.0, repository: https://x}]\n"),
			kind:   helm.ChartInvalid, text: "database",
		},
		"bad values": {
			reason: "a file of the chart cannot be read", chart: with("values.yaml", "a: b\n c: d: e"),
			kind: helm.ChartInvalid, text: "values.yaml",
		},
		"schema": {
			reason: "what is expected, but not what was given", kind: helm.ValuesInvalid,
			text: "the values do not fit the schema of the chart: schema: ",
			chart: func() ([]byte, fields) {
				return charts.Pack("schema"), fields{"name": "S3cretive!", "copies": 9, "password": "short-secre"}
			},
		},
		"schema of a sub-chart": {
			reason: "it is checked with what the sub-chart gets", kind: helm.ValuesInvalid,
			text: "database: - at '/size': maximum: got 5, want 3",
			chart: func() ([]byte, fields) {
				return charts.Pack("parent", charts.File("charts/database/values.schema.json", `{"properties":{"size":{"maximum":3}}}`)), nil
			},
		},
		"kubeVersion": {
			reason: "the cluster is too old", chart: with("Chart.yaml", about+"kubeVersion: '>=9.0.0'\n"),
			kind: helm.ChartInvalid, text: "is made for the Kubernetes versions >=9.0.0, but the cluster has v",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			chart, values := c.chart()
			for _, action := range []helm.Action{helm.Render, helm.Install} {
				r := w.request(chart, values)
				r.Action, r.Revision = action, 1
				_, err := w.run(r)
				e := mustBe(t, err, c.kind, c.text)
				for _, secret := range []string{"a-secret-of-the-chart", "S3cretive", "short-secre", "s3cretive"} {
					if strings.Contains(e.Message, secret) {
						t.Errorf("%s: found a value in: %s", action, e.Message)
					}
				}
			}
			w.mustHave()
			for _, request := range w.Requests.Take() {
				if !strings.HasPrefix(request, "GET ") && !strings.Contains(request, "customresourcedefinitions") {
					t.Errorf("%s: expected no write, but found %s", c.reason, request)
				}
			}
		})
	}
}

// Rule (helm.md#helm-options): `skipSchemaValidation` skips the schema of the chart.
func TestSchemaCanBeSkipped(t *testing.T) {
	t.Parallel()
	r := request(t, charts.Pack("schema"), nil)
	r.Action = helm.Render
	_, err := offline(t, r)
	mustBe(t, err, helm.ValuesInvalid, "missing property 'name'")
	r.Options.SkipSchemaValidation = true
	if _, err := offline(t, r); err != nil {
		t.Error(err)
	}
}

// TestLimits: what is rendered is bounded, and hooks count.
// Rule (helm.md#for-operators): `limits.rendered` limits the output of the templates, hooks included.
func TestLimits(t *testing.T) {
	t.Parallel()
	hook := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {helm.sh/hook: pre-install}}\ndata: {a: {{ repeat 200000 \"x\" }}}"
	for _, chart := range [][]byte{charts.Pack("large"), charts.Pack("plain", charts.File("templates/hook.yaml", hook))} {
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
		filepath.Join(t.TempDir(), "missing"): "open the chart: no such file", t.TempDir(): "read the chart: is a directory",
	} {
		r := request(t, plain, nil)
		r.Action, r.Chart.Path = helm.Render, path
		_, err := offline(t, r)
		mustBe(t, err, helm.ClusterFailed, says)
	}
}
