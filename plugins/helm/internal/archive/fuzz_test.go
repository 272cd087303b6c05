package archive_test

import (
	"bytes"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/archive"
	"github.com/pergola-deploy/pergola/test/charts"
)

// FuzzRead: whatever an archive is, reading it ends within the limits, and Helm can load what is accepted, of which it keeps no more than the
// limits allow.
func FuzzRead(f *testing.F) {
	limits := archive.Limits{UnpackedBytes: 1 << 20, Files: 100, Depth: 3}
	for _, name := range charts.Names() {
		if raw := charts.Pack(name); len(raw) < 100_000 {
			f.Add(raw)
		}
	}
	for _, kind := range charts.HostileKinds(charts.Unpacking, charts.Loading) {
		if raw := charts.Hostile(kind); len(raw) < 100_000 {
			f.Add(raw)
		}
	}
	f.Add(pack(f, shop(file("charts/inner-1.tgz", packed(f, "inner", file("charts/inner-1.tgz", packed(f, "inner")))))...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		readAndLoad(t, raw, limits)
	})
}

// FuzzTar is FuzzRead without the compression, which keeps a fuzzer away from what is in it.
func FuzzTar(f *testing.F) {
	limits := archive.Limits{UnpackedBytes: 1 << 20, Files: 100, Depth: 3}
	f.Add(tarOf(f, shop(file("values.yaml", "a: &a [1]\nb: *a"), file("values.schema.json", `{"$ref":"#"}`), file("charts/_a/b", ""))))
	f.Add(tarOf(f, shop(file("charts/inner-1.tgz", packed(f, "inner")), file("requirements.yaml", "dependencies: [{name: inner}]"))))
	f.Add(tarOf(f, shop(special(linkHeader))))
	f.Fuzz(func(t *testing.T, raw []byte) {
		readAndLoad(t, zip(t, raw), limits)
	})
}

func readAndLoad(t *testing.T, raw []byte, limits archive.Limits) {
	t.Helper()
	files, err := read(raw, limits)
	if err != nil {
		if _, ok := err.(*archive.Error); !ok { //nolint:errorlint // it is to be this type itself
			t.Errorf("expected a refusal, but found %v", err)
		}
		return
	}
	if again, err := loader.LoadArchiveFiles(bytes.NewReader(raw)); err != nil || len(again) != len(files) {
		t.Errorf("Helm reads %d files and not %d (%v)", len(again), len(files), err)
	}
	loaded, err := loader.LoadFiles(buffered(files))
	if err != nil {
		return // for example a version that is not semantic
	}
	if count, size := kept(loaded); count > limits.Files || size > limits.UnpackedBytes {
		t.Errorf("Helm keeps %d files with %d bytes, but %d and %d are allowed", count, size, limits.Files, limits.UnpackedBytes)
	}
}

// kept counts the files of a chart and those of its sub-charts that are not among them already.
func kept(c *chart.Chart) (count int, size int64) {
	for _, file := range append(c.Templates, c.Files...) {
		count++
		size += int64(len(file.Data))
	}
	for _, sub := range c.Dependencies() {
		n, s := kept(sub)
		count, size = count+n, size+s
	}
	return count, size
}

// FuzzSchema: Helm's validator asks for nothing when it compiles a schema that is accepted.
func FuzzSchema(f *testing.F) {
	for _, seed := range []string{
		`{"$ref":"#/a","a":{"$id":"http://a/b","$ref":"http://a/b"}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"$id":"a.json"}},"items":{"$ref":"a.json"}}`,
		`{"$id":"urn:a:b","$defs":{"a":{"$id":"c","$anchor":"d"}},"allOf":[{"$ref":"urn:a:b#/$defs/a"},{"$dynamicRef":"c#d"}]}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://a","properties":{"a":{"$ref":"#/properties/a"}}}`,
		`{"properties":{"a":{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveRef":"#"}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, schema string) {
		if len(schema) > 2000 {
			return // takes the validator too long
		}
		if _, err := read(pack(t, shop(file("values.schema.json", schema))...), generous); err != nil {
			return
		}
		for range 3 {
			if asked, _ := compile(schema); len(asked) > 0 {
				t.Fatalf("it is accepted, but Helm's validator asks for %q", asked)
			}
		}
	})
}
