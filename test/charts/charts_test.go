package charts

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"
	"sigs.k8s.io/yaml"
)

func load(t *testing.T, archive []byte) *chart.Chart {
	t.Helper()
	c, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render has Helm render a chart as for an installation, without a cluster.
func render(c *chart.Chart, values map[string]any) (*release.Release, error) {
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.DryRun, install.ClientOnly, install.IncludeCRDs = true, true, true
	install.ReleaseName, install.Namespace = "shop", "default"
	return install.Run(c, values)
}

// objects are the kinds and names in a manifest, sorted.
func objects(t *testing.T, manifest string) []string {
	t.Helper()
	var found []string
	for document := range strings.SplitSeq(manifest, "\n---") {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if o.Kind != "" {
			found = append(found, o.Kind+"/"+o.Metadata.Name)
		}
	}
	slices.Sort(found)
	return found
}

func TestChartsRender(t *testing.T) {
	t.Parallel()
	workload := []string{"Deployment/shop-workload", "Service/shop-workload"}
	tests := []struct {
		name   string
		chart  string
		reason string
		values map[string]any
		want   []string
		hooks  []string
	}{
		{chart: "plain", want: []string{"ConfigMap/shop-plain-greeting", "ConfigMap/shop-plain-settings"}},
		{
			chart: "plain", name: "with labels", reason: "labels and annotations are values",
			values: map[string]any{"labels": map[string]any{"a": "b"}, "annotations": map[string]any{"c": "d"}},
			want:   []string{"ConfigMap/shop-plain-greeting", "ConfigMap/shop-plain-settings"},
		},
		{chart: "definitions", want: []string{"CustomResourceDefinition/gadgets.charts.example.org", "Gadget/shop-definitions"}},
		{
			chart: "hooks", want: []string{"ConfigMap/shop-hooks"},
			hooks: []string{
				"ConfigMap/shop-hooks-announce", "ConfigMap/shop-hooks-drain", "ConfigMap/shop-hooks-farewell", "ConfigMap/shop-hooks-migrate",
				"ConfigMap/shop-hooks-prepare", "ConfigMap/shop-hooks-refresh", "ConfigMap/shop-hooks-test",
			},
		},
		{
			chart: "hooks", name: "with jobs", reason: "Jobs and a Pod take the place of ConfigMaps",
			values: map[string]any{"jobs": map[string]any{"enabled": true, "command": []any{"true"}}},
			want:   []string{"ConfigMap/shop-hooks"},
			hooks: []string{
				"Job/shop-hooks-announce", "Job/shop-hooks-drain", "Job/shop-hooks-farewell", "Job/shop-hooks-migrate",
				"Job/shop-hooks-prepare", "Job/shop-hooks-refresh", "Pod/shop-hooks-test",
			},
		},
		{chart: "failinghook", want: []string{"ConfigMap/shop-failinghook"}, hooks: []string{"ConfigMap/shop-failinghook-hook"}},
		{
			chart: "failinghook", name: "with a job", values: map[string]any{"hook": map[string]any{"fails": "job"}},
			want: []string{"ConfigMap/shop-failinghook"}, hooks: []string{"Job/shop-failinghook-hook"},
		},
		{
			chart: "failinghook", name: "that hangs", values: map[string]any{"hook": map[string]any{"fails": "hang"}},
			want: []string{"ConfigMap/shop-failinghook"}, hooks: []string{"Job/shop-failinghook-hook"},
		},
		{chart: "parent", want: []string{"ConfigMap/shop-cache", "ConfigMap/shop-database", "ConfigMap/shop-parent"}},
		{
			chart: "parent", name: "by condition and tag", reason: "conditions and tags turn sub-charts on and off",
			values: map[string]any{
				"database": map[string]any{"enabled": false}, "sessions": map[string]any{"enabled": true}, "tags": map[string]any{"speed": false},
			},
			want: []string{"ConfigMap/shop-parent", "ConfigMap/shop-sessions"},
		},
		{chart: "schema", values: map[string]any{"name": "flowers"}, want: []string{"ConfigMap/shop-shop"}},
		{chart: "workload", want: workload},
		{
			chart: "workload", name: "with everything", reason: "what is optional renders as well",
			values: map[string]any{
				"persistence":    map[string]any{"enabled": true, "storageClass": "fast"},
				"readinessProbe": map[string]any{"exec": map[string]any{"command": []any{"true"}}},
				"command":        []any{"sleep"}, "args": []any{"9"}, "env": []any{map[string]any{"name": "A", "value": "b"}},
				"resources":    map[string]any{"limits": map[string]any{"cpu": "1"}},
				"nodeSelector": map[string]any{"a": "b"}, "tolerations": []any{map[string]any{"key": "a", "operator": "Exists"}},
			},
			want: slices.Concat(workload[:1], []string{"PersistentVolumeClaim/shop-workload"}, workload[1:]),
		},
		{
			chart: "workload", name: "without service", values: map[string]any{"service": map[string]any{"enabled": false, "port": 80}},
			want: workload[:1],
		},
		{
			chart: "large", reason: "as many objects as a value says", values: map[string]any{"kilobytes": 1},
			want: []string{"ConfigMap/shop-block-0", "ConfigMap/shop-block-1", "ConfigMap/shop-block-2", "ConfigMap/shop-block-3"},
		},
		{
			chart: "large", name: "of values", values: map[string]any{"objects": 0, "texts": map[string]any{"a": "b"}},
			want: []string{"ConfigMap/shop-text-a"},
		},
		{chart: "broken", want: []string{"ConfigMap/shop-broken"}},
		{chart: "lookup", want: []string{"Secret/shop-lookup"}},
		{chart: "keep", want: []string{"ConfigMap/shop-keep-archive", "ConfigMap/shop-keep-greeting"}},
	}
	tested := map[string]bool{}
	for _, tt := range tests {
		tested[tt.chart] = true
		t.Run(tt.chart+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := render(load(t, Pack(tt.chart)), tt.values)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, objects(t, r.Manifest)); diff != "" {
				t.Errorf("%s: objects (-want +got):\n%s", tt.reason, diff)
			}
			var hooks []string
			for _, h := range r.Hooks {
				hooks = append(hooks, h.Kind+"/"+h.Name)
			}
			slices.Sort(hooks)
			if diff := cmp.Diff(tt.hooks, hooks); diff != "" {
				t.Errorf("%s: hooks (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
	if diff := cmp.Diff(Names(), slices.Sorted(maps.Keys(tested))); diff != "" {
		t.Errorf("charts that are tested (-there +tested):\n%s", diff)
	}
}

func TestContentsComeFromValues(t *testing.T) {
	t.Parallel()
	tests := []struct {
		chart  string
		reason string
		values map[string]any
		want   string
	}{
		{chart: "plain", reason: "a value", values: map[string]any{"greeting": "good morning"}, want: "greeting: \"good morning\""},
		{chart: "parent", reason: "a value of a sub-chart that is imported", want: "database: \"database:5432\""},
		{chart: "parent", reason: "a value for a sub-chart", want: "size: \"5\""},
		{chart: "parent", reason: "a global value", values: map[string]any{"global": map[string]any{"zone": "south"}}, want: "zone: \"south\""},
		{
			chart: "parent", reason: "a value for an alias", values: map[string]any{"sessions": map[string]any{"enabled": true}},
			want: "megabytes: \"16\"",
		},
		{chart: "keep", reason: "the annotation that keeps", want: "helm.sh/resource-policy: keep"},
		{chart: "schema", reason: "a value that the schema requires", values: map[string]any{"name": "flowers"}, want: "name: \"flowers\""},
	}
	for _, tt := range tests {
		t.Run(tt.chart+" "+tt.reason, func(t *testing.T) {
			t.Parallel()
			r, err := render(load(t, Pack(tt.chart)), tt.values)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(r.Manifest, tt.want) {
				t.Errorf("%s: there is no %s in\n%s", tt.reason, tt.want, r.Manifest)
			}
		})
	}
}

func TestHooksSayWhen(t *testing.T) {
	t.Parallel()
	r, err := render(load(t, Pack("hooks")), nil)
	if err != nil {
		t.Fatal(err)
	}
	events := map[release.HookEvent][]string{}
	weights := map[string]int{}
	for _, h := range r.Hooks {
		for _, e := range h.Events {
			events[e] = append(events[e], h.Name)
		}
		weights[h.Name] = h.Weight
	}
	for _, e := range []release.HookEvent{
		release.HookPreInstall, release.HookPostInstall, release.HookPreUpgrade, release.HookPostUpgrade,
		release.HookPreDelete, release.HookPostDelete, release.HookPostRollback, release.HookTest,
	} {
		if len(events[e]) == 0 {
			t.Errorf("there is no hook for %s", e)
		}
	}
	if weights["shop-hooks-prepare"] >= weights["shop-hooks-migrate"] {
		t.Errorf("the weights are %v", weights)
	}
}

func TestLargeIsLarge(t *testing.T) {
	t.Parallel()
	r, err := render(load(t, Pack("large")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if size := len(r.Manifest); size < 1<<20 || size > 1<<20+4096 {
		t.Errorf("the chart renders to %d bytes, want a megabyte", size)
	}
}

func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	for _, values := range []map[string]any{nil, {"name": "Flowers"}, {"name": "flowers", "copies": 6}, {"name": "flowers", "password": "short"}} {
		if _, err := render(load(t, Pack("schema")), values); err == nil {
			t.Errorf("the schema allows %v", values)
		}
	}
}

func TestBrokenFailsWhereItSays(t *testing.T) {
	t.Parallel()
	for failure, line := range BrokenLines {
		_, err := render(load(t, Pack("broken")), map[string]any{"failure": failure})
		want := fmt.Sprintf("%s:%d", BrokenTemplate, line)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: Helm says %v, want something at %s", failure, err, want)
		}
	}
	_, err := render(load(t, Pack("broken", SyntaxError())), nil)
	want := fmt.Sprintf("%s:%d", SyntaxTemplate, SyntaxLine)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("syntax: Helm says %v, want something at %s", err, want)
	}
	for _, failure := range []string{"yaml", "object"} {
		if _, err := render(load(t, Pack("broken")), map[string]any{"failure": failure}); err == nil {
			t.Errorf("%s: Helm finds nothing wrong", failure)
		}
	}
	// Only an API server finds these wrong.
	for failure, want := range map[string]int{"duplicate": 2, "unknown": 2, "rejected": 2} {
		r, err := render(load(t, Pack("broken")), map[string]any{"failure": failure})
		if err != nil || len(objects(t, r.Manifest)) != want {
			t.Errorf("%s: Helm says %v, want %d objects", failure, err, want)
		}
	}
}

func TestPackIsReproducible(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		if !bytes.Equal(Pack(name), Pack(name)) {
			t.Errorf("%s: other bytes each time", name)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	c := load(t, Pack("plain", Name("flowers"), Version("2.0.0-rc.1"), AppVersion("9"),
		File("templates/extra.yaml", "kind: Extra\nmetadata:\n  name: extra\n"),
		File("templates/settings.yaml", ""), Without("templates/NOTES.txt")))
	if c.Name() != "flowers" || c.Metadata.Version != "2.0.0-rc.1" || c.AppVersion() != "9" {
		t.Errorf("the chart says of itself %+v", c.Metadata)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	r, err := render(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ConfigMap/shop-flowers-greeting", "Extra/extra"}, objects(t, r.Manifest)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if r.Info.Notes != "" {
		t.Errorf("the notes are still there: %s", r.Info.Notes)
	}
	// What is changed for one chart is not for the next.
	if c := load(t, Pack("plain")); c.Name() != "plain" || c.Metadata.Version != "1.0.0" {
		t.Errorf("afterwards the chart plain says of itself %+v", c.Metadata)
	}
}

func TestUnknownNamesPanic(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(){
		"chart": func() { Pack("none") }, "kind": func() { Hostile("none") }, "stage": func() { HostileStage("none") },
	} {
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), "plain") && !strings.Contains(err.Error(), "symlink") {
					t.Errorf("%s: the panic does not say which there are: %v", name, err)
				}
			}()
			call()
		}()
	}
}
