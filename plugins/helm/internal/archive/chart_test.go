package archive_test

import (
	"bytes"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/archive"
)

func TestChartsThatAreRefused(t *testing.T) {
	t.Parallel()
	inner := packed(t, "inner")
	cases := []struct {
		reason  string
		entries []entry
		file    string
		says    string
	}{
		{"a file is spelt like another", shop(file("chart.yaml", "name: evil")), "chart.yaml", "almost like Chart.yaml"},
		{"there is only the wrong spelling", []entry{file("chart.yaml", aboutShop)}, "chart.yaml", "almost like Chart.yaml"},
		{"values, too", shop(file("values.yaml", ""), file("Values.yaml", "")), "Values.yaml", "almost like values.yaml"},
		{"in a sub-chart, too", shop(file("charts/a/Chart.yaml", "name: a\nversion: 1.0.0"), file("charts/a/CHART.yaml", "")), "charts/a/CHART.yaml", "almost like"},
		{"the name leads elsewhere", []entry{file("Chart.yaml", "name: ../evil\nversion: 1.0.0")}, "Chart.yaml", `the name "../evil"`},
		{"the name is a folder", []entry{file("Chart.yaml", "name: ..\nversion: 1.0.0")}, "Chart.yaml", `the name ".."`},
		{"the name is missing", []entry{file("Chart.yaml", "version: 1.0.0")}, "Chart.yaml", `the name ""`},
		{"the name is no word", []entry{file("Chart.yaml", "name: \"a\\nb\"\nversion: 1.0.0")}, "Chart.yaml", `the name "a\nb"`},
		{"the name is long", []entry{file("Chart.yaml", "name: "+strings.Repeat("a", 251)+"\nversion: 1.0.0")}, "Chart.yaml", "the name"},
		{"the name of a packed sub-chart", shop(file("charts/a.tgz", string(pack(t, entry{name: "a/Chart.yaml", content: "name: a/b\nversion: 1.0.0"})))), "charts/a.tgz/Chart.yaml", `the name "a/b"`},
		{"the older file changes the name", shop(file("requirements.yaml", "name: ../evil")), "Chart.yaml", `the name "../evil"`},
		{"the version is missing", []entry{file("Chart.yaml", "name: shop")}, "Chart.yaml", `the version ""`},
		{"the version leads elsewhere", []entry{file("Chart.yaml", "name: shop\nversion: 1.0.0/../..")}, "Chart.yaml", `the version "1.0.0/../.."`},
		{"the version is a folder", []entry{file("Chart.yaml", "name: shop\nversion: ..")}, "Chart.yaml", `the version ".."`},
		{"Chart.yaml is no YAML", []entry{file("Chart.yaml", "][")}, "Chart.yaml", "is no YAML"},
		{"Chart.yaml is a list", []entry{file("Chart.yaml", "[a]")}, "Chart.yaml", "is no YAML"},
		{"a dependency is missing", shopWith("dependencies: [{name: inner}, {name: other}]", file("charts/inner.tgz", inner)), "Chart.yaml", `"other"; they are never downloaded`},
		{"it is passed over", shopWith("dependencies: [{name: inner}]", file("charts/_inner.tgz", inner)), "Chart.yaml", `"inner"`},
		{"it is only listed in the older file", shop(file("requirements.yaml", "dependencies: [{name: other}]")), "Chart.yaml", `"other"`},
		{"a sub-chart is no archive", shop(file("charts/a.tgz", "evil")), "charts/a.tgz", "is not gzipped"},
		{"one that is an archive is a folder", shop(file("charts/a.tgz/Chart.yaml", "name: a\nversion: 1.0.0")), "charts/a.tgz", "is the folder of a sub-chart"},
		{"or both", shop(file("charts/a.tgz", inner), file("charts/a.tgz/Chart.yaml", "name: a")), "charts/a.tgz", "is the folder of a sub-chart"},
		{"a sub-chart is a file", shop(file("charts/README.md", "")), "charts/README.md", "is neither"},
		{"a sub-chart is not complete", shop(file("charts/a/values.yaml", "")), "charts/a", "has no file Chart.yaml"},
		{"a link in a packed sub-chart", shop(file("charts/a.tgz", string(pack(t, entry{name: "a/Chart.yaml"}, linked("a/b"))))), "charts/a.tgz/a/b", "symbolic link"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			_, err := read(pack(t, c.entries...), generous)
			refused(t, err, archive.Invalid, c.file, c.says)
		})
	}
}

// The parser quotes what it cannot make a key of.
func TestWhatTheParserSaysIsCutShort(t *testing.T) {
	t.Parallel()
	_, err := read(pack(t, file("Chart.yaml", aboutShop+"? ["+strings.Repeat("long, ", 1000)+"]\n: a\n")), generous)
	refused(t, err, archive.Invalid, "Chart.yaml", "is no YAML")
	if len(err.Error()) > 400 {
		t.Errorf("expected a short message, but found %q", err)
	}
}

func linked(name string) entry {
	e := special(linkHeader)
	e.name = name
	return e
}

func shopWith(line string, more ...entry) []entry {
	return append([]entry{file("Chart.yaml", aboutShop+line+"\n")}, more...)
}

// Helm asks for the dependencies of sub-charts neither, and does not care for versions.
func TestDependenciesThatAreThere(t *testing.T) {
	t.Parallel()
	entries := shopWith("dependencies: [{name: inner, version: 9.x, alias: other}, {name: folder, condition: a.b}]",
		file("charts/inner.tgz", packed(t, "inner")),
		file("charts/another-name/Chart.yaml", "name: folder\nversion: 1.0.0\ndependencies: [{name: missing}]"))
	if _, err := read(pack(t, entries...), generous); err != nil {
		t.Error(err)
	}
}

// What is refused here because of what Helm would do: Helm does it.
func TestHelmWouldTakeWhatIsAmbiguous(t *testing.T) {
	t.Parallel()
	cases := map[string][]byte{
		"two files of one name": pack(t, shop(file("Chart.yaml", strings.Replace(aboutShop, "shop", "evil", 1)))...),
		"two folders":           pack(t, shop(entry{name: "other/values.yaml", content: "a: 1"})...),
		"a missing dependency":  pack(t, shopWith("dependencies: [{name: other}]")...),
	}
	for name, raw := range cases {
		if _, err := loader.LoadArchive(bytes.NewReader(raw)); err != nil {
			t.Errorf("%s: Helm refuses it by itself now: %v", name, err)
		}
	}
}
