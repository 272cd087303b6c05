// Package charts has charts for tests and the demo, each as an author of charts writes it, in a folder of its name, and
// hostile ones, which are made by code.
//
//   - plain: two ConfigMaps with values in them, and notes
//   - definitions: a CustomResourceDefinition in the folder crds, and an object of that kind in the templates
//   - hooks: hooks at every point of a release's life, with weights and delete policies: ConfigMaps, or Jobs with
//     jobs.enabled
//   - failinghook: a hook that fails, by value: one that the API server rejects, or a Job that ends badly or never
//   - parent: sub-charts with conditions, tags, an alias, global and imported values
//   - schema: a schema of the values that requires some
//   - workload: a Deployment with a Service and, by value, a PersistentVolumeClaim, and when it gets ready
//   - large: templates that render a megabyte of values
//   - broken: templates that fail in the way that the value failure names, and with SyntaxError one that cannot be
//     parsed
//   - lookup: a password that is made once and then looked up
//   - keep: an object that stays when the release goes
package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// sources are the charts. The prefix all has files come along whose names begin with an underscore or a dot.
//
//go:embed all:*/*
var sources embed.FS

// metadataFile is where a chart says what it is called.
const metadataFile = "Chart.yaml"

// An Option changes the files of a chart, by path below its folder, before it is packed. Options apply in their order.
type Option func(files map[string][]byte)

// Name gives the chart another name.
func Name(name string) Option { return metadata("name", name) }

// Version gives the chart another version.
func Version(version string) Option { return metadata("version", version) }

// File adds a file, or replaces one. The path is relative to the folder of the chart, such as "templates/extra.yaml".
func File(path, content string) Option {
	return func(files map[string][]byte) { files[path] = []byte(content) }
}

// Without leaves a file out.
func Without(path string) Option { return func(files map[string][]byte) { delete(files, path) } }

// metadata gives a field at the top of the chart's metadata another value.
func metadata(field, value string) Option {
	line := regexp.MustCompile(`(?m)^` + field + `:.*$`)
	return func(files map[string][]byte) {
		files[metadataFile] = line.ReplaceAllLiteral(files[metadataFile], fmt.Appendf(nil, "%s: %q", field, value))
	}
}

// Pack returns a chart as an archive, the same bytes each time. It panics if there is no chart of that name.
func Pack(name string, opts ...Option) []byte { return zipped(tarOf(entries(name, opts...)...)) }

// entries are the files of a chart in their folder.
func entries(name string, opts ...Option) []entry {
	files := map[string][]byte{}
	must(fs.WalkDir(sources, name, func(file string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files[strings.TrimPrefix(file, name+"/")], err = sources.ReadFile(file)
		}
		return err
	}))
	for _, o := range opts {
		o(files)
	}
	var sorted []entry
	for _, file := range slices.Sorted(maps.Keys(files)) {
		sorted = append(sorted, fileEntry(name+"/"+file, files[file]))
	}
	return sorted
}

// entry is an entry of an archive.
type entry struct {
	header  tar.Header
	content []byte
}

func fileEntry(name string, content []byte) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}, content}
}

func tarOf(entries ...entry) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		must(w.WriteHeader(&e.header))
		_, _ = w.Write(e.content) // to memory, which does not fail
	}
	must(w.Close())
	return b.Bytes()
}

func zipped(content []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(content) // to memory, which does not fail
	must(w.Close())
	return b.Bytes()
}

// must panics with an error that only a mistake in this package, or in a call of it, can cause.
func must(err error) {
	if err != nil {
		panic(err) //nolint:forbidigo // a mistake in the test, which has nothing to go on with
	}
}

// BrokenTemplate is the template of the chart broken that fails, as Helm calls it.
const BrokenTemplate = "broken/templates/broken.yaml"

// BrokenLines are the lines of BrokenTemplate that fail, by the value failure.
var BrokenLines = map[string]int{"required": 9, "fail": 11, "nil": 13, "function": 15, "include": 17}

// Line of SyntaxError's template that cannot be parsed, and the template, as Helm calls it.
const (
	SyntaxTemplate = "broken/templates/syntax.yaml"
	SyntaxLine     = 4
)

// SyntaxError adds a template that cannot be parsed: SyntaxTemplate, in a chart that is called broken.
func SyntaxError() Option {
	return File("templates/syntax.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }\n")
}
