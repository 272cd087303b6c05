package helm3_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/test/charts"
)

// entry is an entry of an archive, a file unless the header says otherwise.
type entry struct {
	name, content string
	header        tar.Header
}

// packed is the archive of a chart with more in it.
func packed(t *testing.T, chart string, more ...entry) string {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	about := entry{name: chart + "/Chart.yaml", content: "apiVersion: v2\nname: " + chart + "\nversion: 1.0.0\n"}
	for _, e := range append([]entry{about}, more...) {
		header := e.header
		header.Name, header.Size = e.name, int64(len(e.content))
		if header.Typeflag == 0 {
			header.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Rule (SECURITY.md#authors-of-items): A chart with links, or with paths out of it, is refused.
func TestEntriesThatAreRefused(t *testing.T) {
	t.Parallel()
	special := func(kind byte, target string) entry {
		return entry{name: "shop/evil", header: tar.Header{Typeflag: kind, Linkname: target}}
	}
	big := entry{name: "shop/big", content: strings.Repeat("a", 5<<20+1)}
	long := entry{name: "shop/" + strings.Repeat("a/", 3000) + "a"}
	for reason, c := range map[string]struct {
		entry entry
		kind  helm.Kind
		says  string
	}{
		"an absolute name":             {entry{name: "/etc/passwd"}, helm.ChartInvalid, `"/etc/passwd" of the chart`},
		"a name out of the folder":     {entry{name: "shop/../../evil"}, helm.ChartInvalid, `"shop/../../evil" of`},
		"and back into it":             {entry{name: "../shop/evil"}, helm.ChartInvalid, `"../shop/evil" of the chart`},
		"a backslash separates, too":   {entry{name: `shop\..\evil`}, helm.ChartInvalid, "leads out of its folder"},
		"a symbolic link":              {special(tar.TypeSymlink, "/etc/passwd"), helm.ChartInvalid, `"shop/evil" of`},
		"a link that stays inside":     {special(tar.TypeSymlink, "Chart.yaml"), helm.ChartInvalid, "a symbolic link"},
		"a hard link":                  {special(tar.TypeLink, "shop/Chart.yaml"), helm.ChartInvalid, "is a link"},
		"a device":                     {special(tar.TypeChar, ""), helm.ChartInvalid, "or a device"},
		"a pipe":                       {special(tar.TypeFifo, ""), helm.ChartInvalid, "is a link or a device"},
		"a type that nobody knows":     {special('Z', ""), helm.ChartInvalid, "is a link or a device"},
		"a long name":                  {long, helm.LimitExceeded, "a name of 6006 bytes; 4096 are"},
		"a file that Helm cannot load": {big, helm.LimitExceeded, "5242881 bytes; 5242880 are"},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			inner := packed(t, "shop", c.entry)
			_, err := render(t, []byte(inner), nil)
			mustBe(t, err, c.kind, c.says)
			_, err = render(t, []byte(packed(t, "outer", entry{name: "outer/charts/shop.tgz", content: inner})), nil)
			if e := mustBe(t, err, c.kind, "of the chart"); len(e.Message) > 600 {
				t.Errorf("expected a short message, but found %s", e.Message)
			}
		})
	}
}

// TestLimitsHoldOverAllLevels: a chart of three levels, two of them packed in others.
// Rule (helm.md#for-operators): The limits of a chart hold over all levels of subcharts.
func TestLimitsHoldOverAllLevels(t *testing.T) {
	t.Parallel()
	about := func(name string) string { return "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n" }
	inner := packed(t, "inner", entry{name: "inner/a", content: strings.Repeat("a", 100_000)})
	middle := packed(t, "middle", entry{name: "middle/charts/folder/Chart.yaml", content: about("folder")},
		entry{name: "middle/charts/folder/charts/inner.tgz", content: inner})
	outer := packed(t, "outer", entry{name: "outer/charts/", header: tar.Header{Typeflag: tar.TypeDir}},
		entry{name: "outer/charts/middle.tgz", content: middle},
		entry{name: "outer/charts/_old.tgz", content: "no archive"})
	size := len(about("outer") + middle + "no archive" + about("middle") + about("folder") + inner + about("inner"))
	exact := helm.Limits{UnpackedBytes: int64(size) + 100_000, Files: 9, Depth: 3}

	for reason, c := range map[string]struct {
		change func(*helm.Limits)
		says   string
	}{
		"exact":            {func(*helm.Limits) {}, ""},
		"a byte too many":  {func(l *helm.Limits) { l.UnpackedBytes-- }, "unpacks to more than"},
		"a file too many":  {func(l *helm.Limits) { l.Files-- }, "8 files and folders are allowed"},
		"a level too deep": {func(l *helm.Limits) { l.Depth-- }, `inner.tgz" of the chart is in a sub-chart at depth`},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			r := request(t, []byte(outer), nil)
			r.Action = helm.Render
			r.Limits.UnpackedBytes, r.Limits.Files, r.Limits.Depth = exact.UnpackedBytes, exact.Files, exact.Depth
			c.change(&r.Limits)
			_, err := offline(t, r)
			if c.says != "" {
				mustBe(t, err, helm.LimitExceeded, c.says)
			} else if err != nil {
				t.Errorf("expected that a chart may be as large as allowed, but found %v", err)
			}
		})
	}
}

// Rule (SECURITY.md#authors-of-items): A schema of a chart with references to other documents is refused.
func TestSchemasThatReferToOthersAreRefused(t *testing.T) {
	t.Parallel()
	const server = "http://192.0.2.1/"
	for reason, c := range map[string]struct{ schema, refersTo string }{
		"a file":                {`{"$ref":"file:///etc/passwd"}`, "file:///etc/passwd"},
		"an address":            {`{"properties":{"a":{"$ref":"` + server + `a"}}}`, server + "a"},
		"an encrypted one":      {`{"allOf":[true,{"not":{"$ref":"https://192.0.2.1/a"}}]}`, "https://192.0.2.1/a"},
		"a path":                {`{"$ref":"etc/passwd"}`, "file:///etc/passwd"},
		"a path at its address": {`{"$id":"` + server + `a","not":{"$ref":"b.json"}}`, server + "b.json"},
		"a dynamic reference":   {`{"not":{"$dynamicRef":"` + server + `a#b"}}`, server + "a"},
		"a meta-schema":         {`{"$schema":"` + server + `meta"}`, server + "meta"},
		"one of a part":         {`{"not":{"$id":"` + server + `a","$schema":"file:///etc"}}`, "file:///etc"},
	} {
		const unread = "references to other documents are not followed"
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			for _, in := range []string{"", "charts/database/"} {
				_, err := render(t, charts.Pack("parent", charts.File(in+"values.schema.json", c.schema)), nil)
				mustBe(t, err, helm.ChartInvalid, "refers to "+c.refersTo, unread)
			}
		})
	}
}

// TestHostileChartsAreRefused: charts that would do harm before anything is rendered fail for what is in them.
func TestHostileChartsAreRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range charts.HostileKinds(charts.Unpacking, charts.Loading) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			_, err := render(t, charts.Hostile(kind), nil)
			e := asError(t, err)
			if !slices.Contains([]helm.Kind{helm.ChartInvalid, helm.LimitExceeded, helm.ValuesInvalid}, e.Kind) {
				t.Errorf("expected that the chart is to blame, but found %s: %s", e.Kind, e.Message)
			}
		})
	}
}
