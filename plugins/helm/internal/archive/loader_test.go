package archive_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/archive"
	"github.com/pergola-deploy/pergola/test/charts"
)

func TestHelmLoadsTheSame(t *testing.T) {
	t.Parallel()
	inner := packed(t, "inner", file("values.yaml", "a: 1\n"), file("inner.tgz.prov", "signed"), file("crds/a.yaml", "kind: A\n"))
	cases := map[string][]byte{
		"packed sub-charts, two levels": pack(t, shop(
			file("charts/middle-1.0.0.tgz", packed(t, "middle", file("charts/inner-1.0.0.tgz", inner), file("templates/a.prov", "b"))),
			file("charts/middle-1.0.0.tgz.prov", "signed"))...),
		"a packed one in the folder of another": pack(t, shop(
			file("charts/folder/Chart.yaml", "name: folder\nversion: 0.1.0\n"),
			file("charts/folder/charts/inner-1.0.0.tgz", inner),
			file("charts/folder/a.prov", "of the chart above"),
			file("charts/folder/templates/a.yaml", "a"))...),
		"what Helm passes over in charts": pack(t, shop(
			file("charts/_old/Chart.yaml", "][ no YAML"), file("charts/.git/config", "a"), file("charts/_x.tgz", "no archive"),
			file("charts/.y.tgz", "no archive"), file("charts/lone.prov", "signed"))...),
		"a chart of Helm 2": pack(t,
			file("Chart.yaml", "name: shop\nversion: v1\n"), file("requirements.yaml", "dependencies:\n- name: inner\n  version: 1.x\n  repository: http://a\n"),
			file("requirements.lock", "digest: a\n"), file("charts/inner.tgz", inner)),
		"marks of the byte order": pack(t, file("Chart.yaml", "\ufeff"+aboutShop), file("values.yaml", "\ufeffa: 1"), file("Chart.lock", "\ufeffdigest: a"),
			file("templates/a.yaml", "\ufeffa")),
		"anchors and aliases": pack(t, shop(file("values.yaml", "base: &base {image: a, args: [b, c]}\nweb:\n  <<: *base\n  args: [d]\njob: *base\n"))...),
	}
	for _, name := range charts.Names() {
		cases["chart "+name] = charts.Pack(name)
	}
	for name, raw := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, err := read(raw, generous)
			if err != nil {
				t.Fatal(err)
			}
			sameAsHelm(t, raw, files)
		})
	}
}

// sameAsHelm checks that Helm makes the same chart of the files as of the archive.
func sameAsHelm(t *testing.T, raw []byte, files []archive.File) {
	t.Helper()
	want, err := loader.LoadArchive(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("Helm does not load the archive: %v", err)
	}
	got, err := loader.LoadFiles(buffered(files))
	if err != nil {
		t.Fatalf("Helm does not load the files: %v", err)
	}
	if diff := cmp.Diff(ordered(want), ordered(got), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("chart, -archive +files:\n%s", diff)
	}
}

func buffered(files []archive.File) []*loader.BufferedFile {
	out := make([]*loader.BufferedFile, len(files))
	for i, f := range files {
		out[i] = &loader.BufferedFile{Name: f.Name, Data: f.Data}
	}
	return out
}

// loaded is a chart with its sub-charts in an order of their own: Helm has them in that of a Go map.
type loaded struct {
	Raw       []*chart.File
	Metadata  *chart.Metadata
	Lock      *chart.Lock
	Templates []*chart.File
	Values    map[string]any
	Schema    []byte
	Files     []*chart.File
	Subcharts []loaded
}

func ordered(c *chart.Chart) loaded {
	out := loaded{Raw: c.Raw, Metadata: c.Metadata, Lock: c.Lock, Templates: c.Templates, Values: c.Values, Schema: c.Schema, Files: c.Files}
	for _, sub := range c.Dependencies() {
		out.Subcharts = append(out.Subcharts, ordered(sub))
	}
	slices.SortFunc(out.Subcharts, func(a, b loaded) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	return out
}

func unzipped(t *testing.T, raw []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
