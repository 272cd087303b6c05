package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// open returns a reader of what is in an archive.
func open(t *testing.T, archive []byte) *tar.Reader {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	return tar.NewReader(unzipped)
}

// find returns the first entry of an archive that is as wanted, and the reader of its content.
func find(t *testing.T, archive []byte, wanted func(*tar.Header) bool) (*tar.Header, *tar.Reader) {
	t.Helper()
	r := open(t, archive)
	for {
		header, err := r.Next()
		if err != nil {
			t.Fatalf("look for the entry: %v", err)
		}
		if wanted(header) {
			return header, r
		}
	}
}

func TestHostileChartsAreSmallAndReproducible(t *testing.T) {
	t.Parallel()
	const small = 2 << 20
	seen := map[string]bool{}
	for _, kind := range HostileKinds() {
		archive := Hostile(kind)
		if len(archive) > small {
			t.Errorf("%s has %d bytes", kind, len(archive))
		}
		if !bytes.Equal(archive, Hostile(kind)) {
			t.Errorf("%s: other bytes each time", kind)
		}
		if seen[kind] {
			t.Errorf("there are two kinds %s", kind)
		}
		seen[kind] = true
	}
	byStage := len(HostileKinds(Unpacking)) + len(HostileKinds(Loading)) + len(HostileKinds(Rendering))
	if byStage != len(seen) || len(HostileKinds(Unpacking, Rendering)) != byStage-len(HostileKinds(Loading)) {
		t.Errorf("the stages have %d kinds, together there are %d", byStage, len(seen))
	}
	if got := HostileStage("symlink"); got != Unpacking {
		t.Errorf("a symlink does its harm when %s", got)
	}
}

func TestEntries(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind string
		want tar.Header
	}{
		{"zip-bomb", tar.Header{Typeflag: tar.TypeReg, Name: "bomb/files/zeros", Size: 1 << 30}},
		{"zip-bomb-members", tar.Header{Typeflag: tar.TypeReg, Name: "bomb/files/zeros", Size: 1 << 30}},
		{"sparse-bomb", tar.Header{Typeflag: tar.TypeReg, Name: "bomb/files/hole", Size: 1 << 40}},
		{"path-traversal", tar.Header{Typeflag: tar.TypeReg, Name: "plain/../../../../tmp/evil"}},
		{"path-traversal-inside", tar.Header{Typeflag: tar.TypeReg, Name: "plain/templates/../../../evil"}},
		{"path-traversal-backslash", tar.Header{Typeflag: tar.TypeReg, Name: `plain\..\..\evil`}},
		{"path-absolute", tar.Header{Typeflag: tar.TypeReg, Name: "/etc/cron.d/evil"}},
		{"path-absolute-inside", tar.Header{Typeflag: tar.TypeReg, Name: "plain//etc/cron.d/evil"}},
		{"path-drive", tar.Header{Typeflag: tar.TypeReg, Name: `plain\c:\evil`}},
		{"path-base", tar.Header{Typeflag: tar.TypeReg, Name: "evil"}},
		{"path-dot", tar.Header{Typeflag: tar.TypeReg, Name: "plain/."}},
		{"path-long", tar.Header{Typeflag: tar.TypeReg, Name: "plain/" + strings.Repeat("a/", 100_000) + "evil"}},
		{"path-invalid-utf8", tar.Header{Typeflag: tar.TypeReg, Name: "plain/templates/\xff\xfe.yaml"}},
		{"path-control", tar.Header{Typeflag: tar.TypeReg, Name: "plain/templates/\x1b[2J\n.yaml"}},
		{"symlink", tar.Header{Typeflag: tar.TypeSymlink, Name: "plain/templates/evil.yaml", Linkname: "/etc/passwd"}},
		{"symlink-folder", tar.Header{Typeflag: tar.TypeSymlink, Name: "plain/charts", Linkname: "/etc"}},
		{"symlink-lock", tar.Header{Typeflag: tar.TypeSymlink, Name: "plain/Chart.lock", Linkname: "/tmp/evil"}},
		{"hard-link", tar.Header{Typeflag: tar.TypeLink, Name: "plain/templates/evil.yaml", Linkname: "/etc/passwd"}},
		{"device", tar.Header{Typeflag: tar.TypeChar, Name: "plain/templates/evil.yaml"}},
		{"block-device", tar.Header{Typeflag: tar.TypeBlock, Name: "plain/templates/evil.yaml"}},
		{"fifo", tar.Header{Typeflag: tar.TypeFifo, Name: "plain/templates/evil.yaml"}},
		{"many-files", tar.Header{Typeflag: tar.TypeReg, Name: "plain/files/011999"}},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			got, _ := find(t, Hostile(tt.kind), func(h *tar.Header) bool { return h.Name == tt.want.Name })
			if got.Typeflag != tt.want.Typeflag || got.Linkname != tt.want.Linkname {
				t.Errorf("the entry is %+v, want %+v", got, tt.want)
			}
			if tt.want.Size != 0 && got.Size != tt.want.Size {
				t.Errorf("the entry has %d bytes, want %d", got.Size, tt.want.Size)
			}
		})
	}
}

func TestBombsExplode(t *testing.T) {
	t.Parallel()
	const part = 8 << 20
	for kind, name := range map[string]string{
		"zip-bomb": "bomb/files/zeros", "zip-bomb-members": "bomb/files/zeros", "sparse-bomb": "bomb/files/hole",
	} {
		_, content := find(t, Hostile(kind), func(h *tar.Header) bool { return h.Name == name })
		if n, err := io.CopyN(io.Discard, content, part); err != nil {
			t.Errorf("%s: unpacking ends after %d bytes: %v", kind, n, err)
		}
	}

	// The whole of a small one, with the checksum and what comes after the file.
	bomb := zeros("bomb/files/zeros", 3<<20)
	if err := readAll(bomb); err != nil {
		t.Errorf("reading all of it ends with %v", err)
	}
	r := open(t, bomb)
	var sizes []int64
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, int64(len(content)))
		if header.Name == "bomb/files/zeros" && len(bytes.Trim(content, "\x00")) != 0 {
			t.Error("the file has something else than zeros in it")
		}
	}
	if diff := cmp.Diff([]int64{int64(len(chartOf("bomb"))), 3 << 20}, sizes); diff != "" {
		t.Errorf("sizes of the files (-want +got):\n%s", diff)
	}
}

func TestSubChartsAreNested(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind       string
		deep, wide int
		last       string
	}{
		{kind: "nested-deep", deep: nestedDeep, wide: 1, last: "plain/Chart.yaml"},
		{kind: "nested-wide", deep: nestedWide, wide: 10, last: "plain/Chart.yaml"},
		{kind: "nested-bomb", deep: 2, wide: 1, last: "bomb/files/zeros"},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			chart := Hostile(tt.kind)
			for i := range tt.deep {
				subs := 0
				var sub []byte
				r := open(t, chart)
				for {
					header, err := r.Next()
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					if strings.HasPrefix(header.Name, "nested/charts/") {
						subs++
						if sub, err = io.ReadAll(r); err != nil {
							t.Fatal(err)
						}
					}
				}
				if subs != tt.wide {
					t.Fatalf("at depth %d there are %d sub-charts, want %d", i, subs, tt.wide)
				}
				chart = sub
			}
			find(t, chart, func(h *tar.Header) bool { return h.Name == tt.last })
		})
	}
}

func TestArchivesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	tests := map[string]error{
		"empty": io.EOF, "no-files": nil, "no-gzip": gzip.ErrHeader, "no-tar": tar.ErrHeader, "truncated": io.ErrUnexpectedEOF,
		"truncated-tar": io.ErrUnexpectedEOF, "checksum": gzip.ErrChecksum,
	}
	for kind, want := range tests {
		if err := readAll(Hostile(kind)); !errors.Is(err, want) {
			t.Errorf("%s: reading it ends with %v, want %v", kind, err, want)
		}
	}
	if err := readAll(Pack("plain")); err != nil {
		t.Errorf("the chart plain: %v", err)
	}
}

func readAll(archive []byte) error {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	for r := tar.NewReader(unzipped); err == nil; {
		if _, err = r.Next(); err == nil {
			_, err = io.Copy(io.Discard, r)
		}
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	// The checksum comes after the end of the tar.
	_, err = io.Copy(io.Discard, unzipped)
	return err
}

// TestTemplatesCanBeParsed proves that hostile templates fail for what they do, and not because they are no templates.
func TestTemplatesCanBeParsed(t *testing.T) {
	t.Parallel()
	functions := template.FuncMap{"include": func(string, any) string { return "" }, "tpl": func(string, any) string { return "" }}
	for _, kind := range HostileKinds(Rendering) {
		if strings.HasPrefix(kind, "template-deep") {
			continue // it is for who parses them
		}
		c, err := loader.LoadArchive(bytes.NewReader(Hostile(kind)))
		if err != nil {
			t.Errorf("%s: Helm cannot load the chart: %v", kind, err)
			continue
		}
		for _, f := range c.Templates {
			if f.Name != evil {
				continue
			}
			if _, err := template.New("").Funcs(sprig.TxtFuncMap()).Funcs(functions).Parse(string(f.Data)); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
}

func TestDoublingEnds(t *testing.T) {
	t.Parallel()
	calls := 0
	parsed := template.New("")
	_, err := parsed.Funcs(template.FuncMap{"include": func(name string, data any) (string, error) {
		calls++
		b := &strings.Builder{}
		err := parsed.ExecuteTemplate(b, name, data)
		return b.String(), err
	}}).Parse(doubling(5))
	if err != nil {
		t.Fatal(err)
	}
	if err := parsed.Execute(io.Discard, nil); err != nil {
		t.Fatal(err)
	}
	if want := 1<<6 - 1; calls != want {
		t.Errorf("five templates make %d calls, want %d", calls, want)
	}
}

func TestFilesThatHelmRefuses(t *testing.T) {
	t.Parallel()
	// Why Helm itself refuses a chart of the kind when it is loaded.
	for kind, want := range map[string]string{
		"name-traversal":      "chart.metadata.name",
		"name-absolute":       "chart.metadata.name",
		"version-traversal":   "chart.metadata.version",
		"metadata-missing":    "Chart.yaml file is missing",
		"metadata-no-yaml":    "cannot load Chart.yaml",
		"metadata-deep":       "exceeded max depth",
		"metadata-alias-bomb": "excessive aliasing",
		"values-deep":         "exceeded max depth",
		"values-deep-maps":    "exceeded max depth",
		"values-alias-bomb":   "excessive aliasing",
		"values-invalid-utf8": "invalid leading UTF-8 octet",
	} {
		c, err := loader.LoadArchive(bytes.NewReader(Hostile(kind)))
		if err == nil {
			err = c.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: Helm says %v, want something of %s", kind, err, want)
		}
	}
	// And what it finds wrong, if it looks, when values are checked.
	for _, kind := range HostileKinds(Loading) {
		if !strings.HasPrefix(kind, "schema-") {
			continue
		}
		if _, err := render(load(t, Hostile(kind)), nil); err == nil {
			t.Errorf("%s: Helm finds nothing wrong", kind)
		}
	}
}

func TestSchemaRef(t *testing.T) {
	t.Parallel()
	const target = "https://elsewhere.example.org/schema.json"
	c := load(t, Pack("plain", SchemaRef(target)))
	if !strings.Contains(string(c.Schema), fmt.Sprintf("%q", target)) {
		t.Errorf("the schema does not refer to the URL:\n%s", c.Schema)
	}
}
