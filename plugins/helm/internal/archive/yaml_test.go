package archive_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/archive"
)

// numbered repeats a line with a number in it.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// laughs is a list of ten lists of ten, and so on.
func laughs(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	return b.String()
}

func utf16(text string) string {
	b := []byte{0xff, 0xfe}
	for _, c := range []byte(text) {
		b = append(b, c, 0)
	}
	return string(b)
}

func TestYAMLThatIsRefused(t *testing.T) {
	t.Parallel()
	cases := []struct {
		reason  string
		content string
		kind    archive.Kind
		says    string
	}{
		{"flow lists in each other", "a: " + strings.Repeat("[", 1_000_000), archive.LimitExceeded, "entries"},
		{"lists in each other, closed", "a: " + strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000), archive.LimitExceeded, "entries"},
		{"block lists in each other", strings.Repeat("- ", 1_000_000), archive.LimitExceeded, "entries"},
		{"keys in each other", strings.Repeat("? ", 1_000_000), archive.LimitExceeded, "entries"},
		{"many small maps", "a: [" + strings.Repeat("{a},", 101_000) + "]", archive.LimitExceeded, "nodes"},
		{"many empty lines of a list", "a:\n" + strings.Repeat("-\n", 501_000), archive.LimitExceeded, "entries"},
		{"the same after a return only", "# a\ra: [" + strings.Repeat("{a},", 251_000) + "]", archive.LimitExceeded, "entries"},
		{"the same after another line break", "# a\u2028a: [" + strings.Repeat("{a},", 251_000) + "]", archive.LimitExceeded, "entries"},
		{"aliases of aliases", laughs(10), archive.LimitExceeded, "nodes"},
		{"aliases of a text, whose bytes Helm's parser does not count", "a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a,", 900) + "]", archive.LimitExceeded, "bytes"},
		{"the same as keys to be merged", "a: &a {k: " + strings.Repeat("x", 100_000) + "}\nb:\n" + strings.Repeat("- <<: *a\n", 900), archive.LimitExceeded, "bytes"},
		{"the same behind a mark of the byte order", "\ufeff&a a: 1\nb: [&b " + strings.Repeat("x", 100_000) + strings.Repeat(",*b", 900) + "]", archive.LimitExceeded, "bytes"},
		{"an alias of what it is in", "a: &a [*a]", archive.Invalid, "contains itself"},
		{"an alias of nothing", "a: &a 1\nb: *b", archive.Invalid, "is no YAML"},
		{"many tags, for which Helm's parser needs the square of the time", numbered(50_000, "%%TAG !a%x! b\n") + "---\na: 1\n", archive.Invalid, "%TAG"},
		{"a long tag, which it repeats", "%TAG !a! " + strings.Repeat("b", 1000) + "\n---\na: 1\n", archive.Invalid, "%TAG"},
		{"a tag in the second document", "a: 1\n...\n%TAG !a! b\n---\na: 1\n", archive.Invalid, "%TAG"},
		{"a tag after a return only", "a: 1\r...\r%TAG !a! b\r---\ra: 1\r", archive.Invalid, "%TAG"},
		{"a tag behind two marks of the byte order", "\ufeff\ufeff%TAG !a! b\n---\na: 1\n", archive.Invalid, "%TAG"},
		{"what looks otherwise than it is parsed", utf16("%TAG !a! b\n---\na: 1\n"), archive.Invalid, "UTF-8"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			_, err := read(pack(t, shop(file("values.yaml", c.content))...), generous)
			refused(t, err, c.kind, "values.yaml", c.says)
		})
	}
}

func TestFilesThatAreReadAsYAML(t *testing.T) {
	t.Parallel()
	bomb := laughs(7)
	for _, name := range []string{"Chart.lock", "requirements.yaml", "requirements.lock", "crds/a.YML", "crds/dir/a.json", "charts/a/values.yaml"} {
		_, err := read(pack(t, shop(file(name, bomb), file("charts/a/Chart.yaml", "name: a\nversion: 1.0.0"))...), generous)
		refused(t, err, archive.LimitExceeded, name, "nodes")
	}
	_, err := read(pack(t, file("Chart.yaml", aboutShop+bomb)), generous)
	refused(t, err, archive.LimitExceeded, "Chart.yaml", "nodes")

	if _, err := read(pack(t, shop(file("templates/a.yaml", bomb), file("crds/a.txt", bomb), file("files/values.yaml", bomb))...), generous); err != nil {
		t.Errorf("files that Helm does not parse when it loads: %v", err)
	}
}

// Each file is within the limits of a document.
func TestYAMLThatIsTooMuchTogether(t *testing.T) {
	t.Parallel()
	fewBytes := generous
	fewBytes.UnpackedBytes = 9 << 20
	cases := []struct {
		reason, content string
		limits          archive.Limits
		files           int
		says            string
	}{
		{"entries", strings.Repeat("- a\n", 199_000), generous, 10, "too much YAML"},
		{"entries of many documents", strings.Repeat("---\n- a\n", 500_000), generous, 1, "too much YAML"},
		{"entries that are repeated", laughs(5), generous, 16, "too much YAML"},
		{"bytes that are repeated", "a: &a " + strings.Repeat("x", 400_000) + "\nb: [*a, *a, *a, *a, *a]", fewBytes, 3, "repeats text"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			entries := shop(file("crds/0.yaml", c.content))
			if _, err := read(pack(t, entries...), c.limits); err != nil {
				t.Fatalf("one file alone is too much: %v", err)
			}
			for i := range c.files {
				entries = append(entries, file(fmt.Sprintf("crds/%d.yaml", i+1), c.content))
			}
			_, err := read(pack(t, entries...), c.limits)
			refused(t, err, archive.LimitExceeded, fmt.Sprintf("crds/%d.yaml", c.files), c.says)
		})
	}
}

func TestYAMLThatIsLeftToHelm(t *testing.T) {
	t.Parallel()
	paragraph := "# Some text, with a list: a, b, c [d] {e} - and more? Yes: *bold* & more &co.\n"
	cases := map[string]string{
		"no YAML at all":             "a: [\n\tb: }",
		"much in comments":           strings.Repeat("  # - [a, b, {c: d}]\n", 100_000) + "a: 1\n",
		"a long text":                "a: |\n" + strings.Repeat("  "+paragraph, 10_000),
		"a megabyte of values":       numbered(14_000, "key%d:\n  # a comment\n  image: foo/bar:1\n  list:\n  - name: a\n    value: \"x\"\n"),
		"a text with much in it":     "a: |\n" + strings.Repeat("  {\"a\": 1, \"b\": [1, 2]},\n", 60_000),
		"many documents":             strings.Repeat("---\na: [1, 2, 3]\n", 100_000),
		"anchors without aliases":    numbered(1000, "a%d: &a 1\n"),
		"a few aliases":              "a: &a {b: c}\n" + numbered(1000, "c%d: *a\n"),
		"the version of YAML":        "%YAML 1.1\n---\na: 1\n",
		"a text that names the word": "a: '%TAG ! b'\nb: |\n  %TAG ! b\n",
	}
	for name, content := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := read(pack(t, shop(file("values.yaml", content))...), generous); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAcceptedYAMLIsCheapForHelm measures documents that are just within the limits. It is about memory, which does not depend on what else
// the computer does.
func TestAcceptedYAMLIsCheapForHelm(t *testing.T) {
	const allowed = 300 << 20 // altogether; a third of it at a time
	cases := map[string]string{
		"maps of one key":   "a: [" + strings.Repeat("{a},", 99_000) + "]",
		"different keys":    numbered(195_000, "a%x:\n"),
		"list":              "a: [" + strings.Repeat("1,", 195_000) + "]",
		"deep":              "a: " + strings.Repeat("[", 9_990) + strings.Repeat("]", 9_990),
		"repeated text":     "a: &a " + strings.Repeat("<", 50_000) + "\nb: [" + strings.Repeat("*a,", 100) + "]",
		"repeated maps":     "a: &a {" + numbered(90, "a%d,") + "}\nb: [" + strings.Repeat("*a,", 1000) + "]",
		"aliases of others": laughs(5),
		"one long text":     "a: \"" + strings.Repeat(`\x01`, 1_300_000) + "\"",
	}
	for name, content := range cases {
		if _, err := read(pack(t, shop(file("values.yaml", content))...), generous); err != nil {
			t.Errorf("%s: expected that it is within the limits, but found %v", name, err)
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		values := map[string]any{}
		err := yaml.Unmarshal([]byte(content), &values)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > allowed {
			t.Errorf("%s: Helm needs %d bytes for a document of %d (%v)", name, used, len(content), err)
		}
	}
}
