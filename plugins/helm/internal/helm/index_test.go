package helm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/repo"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// usual is an index as Helm writes it.
const usual = `apiVersion: v1
entries:
  # a comment
  other:
  - apiVersion: v2
    description: |
      other:
      shop:
        - version: 6.6.6
    name: other
    urls:
    - other.tgz
    version: 9.0.0
  shop:
  - apiVersion: v2
    created: "2026-01-01T00:00:00Z"
    dependencies:
    - name: base
      version: 7.7.7
    digest: abc
    name: shop
    urls:
    - shop-1.0.0.tgz

    - https://example.org/shop-1.0.0.tgz
    version: 1.0.0
  - name: shop
    urls: [shop-1.10.0.tgz]
    version: 1.10.0
  - name: shop
    urls: [shop-1.9.0.tgz]
    version: 1.9.0
  - name: shop
    version: 2.0.0-rc.1
  - name: shop
    version: one
  shopping:
  - version: 3.0.0
generated: "2026-01-01T00:00:00Z"
`

// versionsOf lists the versions of a chart, the newest first.
func versionsOf(document []byte, chart string) (names []string, err error) {
	items, err := itemsOf(document, chart)
	for _, v := range decoded(items) {
		names = append(names, v.Version)
	}
	return names, err
}

func TestReadIndex(t *testing.T) {
	t.Parallel()
	one, usualWant := []string{"1.0.0"}, []string{"2.0.0-rc.1", "1.10.0", "1.9.0", "1.0.0"}
	asJSON, err := yaml.YAMLToJSON([]byte(usual))
	if err != nil {
		t.Fatal(err)
	}
	pad := "# " + strings.Repeat("x", 3<<20) + "\n"
	for name, c := range map[string]struct {
		document string
		want     []string
		err      error
	}{
		"as Helm writes it": {usual, usualWant, nil},
		"lines of Windows":  {strings.ReplaceAll(usual, "\n", "\r\n"), usualWant, nil},
		"indented": {
			"entries:\n    shop:\n      - version: 1.0.0\n        urls:\n          - x\n      - version: 1.1.0\n",
			[]string{"1.1.0", "1.0.0"}, nil,
		},
		"comments": {
			"#\nentries: # x\n# y\n  shop: # z\n#\n  - version: 1.0.0 # a\n# b\n    urls: []\n", one, nil,
		},
		"version like a number":    {"entries:\n  shop:\n  - version: 1.10\n", []string{"1.10"}, nil},
		"much about other things":  {pad + usual + pad, usualWant, nil},
		"JSON":                     {string(asJSON), usualWant, nil},
		"flow":                     {"entries: {shop: [{version: 1.0.0}]}", one, nil},
		"anchor":                   {"entries:\n  other:\n  - &a\n    version: 1.0.0\n  shop:\n  - *a\n", one, nil},
		"large flow":               {pad + "entries: {shop: [{version: 1.0.0}]}", one, nil},
		"another chart":            {"entries:\n  shops:\n  - version: 1.0.0\n", nil, nil},
		"no version":               {"entries:\n  shop: []\n", nil, nil},
		"empty repository":         {"apiVersion: v1\nentries: {}\n", nil, nil},
		"nothing below entries":    {"entries:\n", nil, nil},
		"empty":                    {"", nil, errNoIndex},
		"page":                     {"<html>\n<body>entries:</body>\n</html>", nil, errNoIndex},
		"another document":         {"kind: ConfigMap\ndata:\n  entries: x\n", nil, errNoIndex},
		"tabs":                     {"entries:\n\tshop:\n", nil, errNoIndex},
		"version that is too long": {"entries:\n  shop:\n  - version: 1.0.0-" + strings.Repeat("x", 4<<10), nil, nil},
		// A long text costs nothing, however often it is referred to.
		"repeats": {
			"apiVersion: v1\nentries:\n  shop:\n  - version: 1.0.0\n    description: &a " + strings.Repeat("x", 1<<20) +
				"\n    keywords:\n" + strings.Repeat("    - *a\n", 100_000), one, nil,
		},
		"deep version":         {"entries:\n  shop:\n  - x: " + strings.Repeat("[", 900_000) + "\n", nil, errNoIndex},
		"deep JSON":            {`{"x": ` + strings.Repeat("[", 2_500_000), nil, errNoIndex},
		"JSON without its end": {`{"entries": {"shop": [{"version": "1.0.0"}`, nil, errNoIndex},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := versionsOf([]byte(c.document), "shop")
			if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, c.err) {
				t.Errorf("expected the error %v, but found %v; -want +got:\n%s", c.err, err, diff)
			}
		})
	}
}

// Rule (helm.md#charts): A version range picks the newest matching version.
func TestPick(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "index.yaml")
	if err := os.WriteFile(path, []byte(usual), 0o600); err != nil {
		t.Fatal(err)
	}
	for wanted, want := range map[string]string{
		"": "1.10.0", "*": "1.10.0", "1.0.0": "1.0.0", "v1.0.0": "1.0.0", "^1.0": "1.10.0", "~1.9": "1.9.0",
		">1.0.0 <1.10.0": "1.9.0", "1.9.x": "1.9.0", ">0-0": "2.0.0-rc.1", "2.0.0-rc.1": "2.0.0-rc.1", ">=2": "", "3": "",
		"<1 || 1.9.0": "1.9.0",
	} {
		listed, err := ReadIndex(path, Wanted{Name: "shop", Version: wanted})
		if err != nil || listed.Versions != 4 || listed.Newest != "2.0.0-rc.1" {
			t.Fatalf("%q: expected 4 versions, the newest 2.0.0-rc.1, but found %+v (%v)", wanted, listed, err)
		}
		var got string
		if listed.Found != nil {
			got = listed.Found.Version
		}
		if got != want {
			t.Errorf("%q: expected %q, but found %q", wanted, want, got)
		}
	}
	for _, wanted := range []string{"one", "1..", "latest", strings.Repeat("1 || ", 100) + "1"} {
		if w, err := ParseConstraint(wanted); err == nil {
			t.Errorf("%q: expected an error, but found %v", wanted, w)
		}
	}
}

// TestListedIsSmall: the answer about an index has few and short texts, whatever the index holds.
func TestListedIsSmall(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	document := "entries:\n  shop:\n  - version: 1.0.0\n    digest: " + long + "\n    urls:\n    - &a " + long + "\n" +
		strings.Repeat("    - *a\n", 1000) + strings.Repeat("    - b\n", 1000)
	listed, err := lookUp([]byte(document), Wanted{Name: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	want := &Listed{Versions: 1, Newest: "1.0.0", Found: &ChartVersion{
		Version: "1.0.0", URLs: slices.Repeat([]string{"b"}, maxAddresses), Digest: long[:maxText],
	}}
	if diff := cmp.Diff(want, listed, cmpopts.IgnoreUnexported(ChartVersion{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestAgreesWithHelm compares with Helm's own reading of an index that it has written, and with what it picks.
func TestAgreesWithHelm(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "index.yaml")
	name := rapid.SampledFrom([]string{"shop", "a", "true", "1", "x:y", "entries", "s-h", "-a"})
	text := rapid.SampledFrom([]string{
		"", "plain", "shop:", "- version: 6.6.6", "a\nshop:\n- version: 6.6.6\n", "# x", "\ttab", "  shop:\n  - b",
		"---\nentries:\n", strings.Repeat("long word ", 30), "ü\u2028x",
	})
	version := rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(0, 3)
		v := fmt.Sprintf("%d.%d.%d", n.Draw(t, "major"), n.Draw(t, "minor"), n.Draw(t, "patch"))
		return v + rapid.SampledFrom([]string{"", "", "", "-rc.1", "+b1", "x"}).Draw(t, "suffix")
	})
	rapid.Check(t, func(t *rapid.T) {
		in := repo.NewIndexFile()
		in.Generated = time.Unix(1e9, 0)
		for range rapid.IntRange(0, 12).Draw(t, "versions") {
			v := &repo.ChartVersion{
				Metadata: &chart.Metadata{
					APIVersion: "v2", Name: name.Draw(t, "name"), Version: version.Draw(t, "version"),
					Description: text.Draw(t, "description"),
					Keywords:    []string{text.Draw(t, "keyword")}, Annotations: map[string]string{"a": text.Draw(t, "annotation")},
				},
				URLs:    []string{rapid.SampledFrom([]string{"x.tgz", "https://example.org/y.tgz"}).Draw(t, "url")},
				Created: time.Unix(1e9, 0), Digest: rapid.SampledFrom([]string{"", "abc"}).Draw(t, "digest"),
			}
			in.Entries[v.Name] = append(in.Entries[v.Name], v)
		}
		write := in.WriteFile
		if rapid.Bool().Draw(t, "json") {
			write = in.WriteJSONFile
		}
		if err := write(path, 0o600); err != nil {
			t.Fatal(err)
		}
		helms, err := repo.LoadIndexFile(path)
		if err != nil {
			t.Skip("Helm cannot read what it has written:", err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for name := range in.Entries {
			for _, wanted := range []string{"", "1.0.0", "^1", ">=0-0", "2.x"} {
				ours, err := lookUp(content, Wanted{Name: name, Version: wanted})
				if err != nil {
					t.Fatalf("chart %q: %v in\n%s", name, err, content)
				}
				if ours.Versions != len(helms.Entries[name]) {
					t.Fatalf("chart %q: Helm finds %d versions, the package finds %+v in\n%s",
						name, len(helms.Entries[name]), ours, content)
				}
				helm, _ := helms.Get(name, wanted)
				our := ours.Found
				if (helm == nil) != (our == nil) || helm != nil && !sameVersion(helm.Version, our.Version) {
					t.Fatalf("chart %q %q: Helm picks %+v, the package picks %+v", name, wanted, helm, our)
				}
			}
		}
	})
}

// sameVersion passes over what is behind a plus: Helm takes any of those that differ in nothing else.
func sameVersion(a, b string) bool {
	a, _, _ = strings.Cut(a, "+")
	b, _, _ = strings.Cut(b, "+")
	return a == b
}
