package archive_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/archive"
)

// What is packed is read, whatever the files are called and hold, in their order, and at exactly the limits that it needs.
func TestWhatIsPackedIsRead(t *testing.T) {
	t.Parallel()
	names := rapid.StringMatching(`(templates|files|crds)/[a-zA-ZäöüÄ ._-]{1,40}(/[a-z0-9]{1,120}){0,3}\.(txt|tpl)`).
		Filter(func(name string) bool { return path.Clean(name) == name })
	rapid.Check(t, func(t *rapid.T) {
		want := []archive.File{{Name: "Chart.yaml", Data: []byte(aboutShop)}}
		entries := shop()
		for _, name := range rapid.SliceOfNDistinct(names, 0, 12, rapid.ID).Draw(t, "names") {
			content := rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "content")
			if strings.HasPrefix(string(content), "\ufeff") {
				content = nil // it would be taken off
			}
			entries = append(entries, file(name, string(content)))
			want = append(want, archive.File{Name: name, Data: append([]byte{}, content...)})
		}
		at := rapid.IntRange(0, len(entries)-1).Draw(t, "Chart.yaml at")
		entries[0], entries[at] = entries[at], entries[0]
		want[0], want[at] = want[at], want[0]
		stream := tarOf(t, entries)
		limits := archive.Limits{UnpackedBytes: int64(len(stream)), Files: len(entries)}

		files, err := read(zip(t, stream), limits)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, files); diff != "" {
			t.Errorf("files, -packed +read:\n%s", diff)
		}
		for _, less := range []archive.Limits{
			{UnpackedBytes: limits.UnpackedBytes - 1, Files: limits.Files}, {UnpackedBytes: limits.UnpackedBytes, Files: limits.Files - 1},
		} {
			if _, err := read(zip(t, stream), less); err == nil {
				t.Errorf("expected that %+v is too little, but the archive is read", less)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	text := numbered(12_000, "  key%d: some text, as there is in templates: {{ .Values.a }}\n")
	values := numbered(12_000, "key%d:\n  # a comment\n  image: foo/bar:1\n  list:\n  - name: a\n    value: \"x\"\n")
	definition := strings.Repeat("  properties:\n    description: 'Some text, or more'\n    type: string\n", 200)
	var many []entry
	for i := range 100 {
		many = append(many, file(fmt.Sprintf("crds/%d.yaml", i), "a:\n"+definition))
	}
	for name, raw := range map[string][]byte{
		"templates 1 MB":         pack(b, shop(file("templates/a.yaml", text))...),
		"values 1 MB":            pack(b, shop(file("values.yaml", values))...),
		"values 1 MB with alias": pack(b, shop(file("values.yaml", values+"x: &x 1\ny: *x\n"))...),
		"definitions 1 MB":       pack(b, shop(many...)...),
		"packed sub-chart 1 MB":  pack(b, shop(file("charts/inner.tgz", packed(b, "inner", file("templates/a.yaml", text))))...),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := read(raw, generous); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
