package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// sources are the charts. The prefix all has files come along whose names begin with an underscore or a dot.
//
//go:embed all:plain all:definitions all:hooks all:failinghook all:parent all:schema all:workload all:large all:broken all:lookup all:keep
var sources embed.FS

// modTime is that of every file in an archive, so that the same chart always is the same bytes.
var modTime = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// quick is from how many bytes on a chart is packed quickly, and not as small as it could be.
const quick = 256 << 10

// metadataFile is where a chart says what it is called.
const metadataFile = "Chart.yaml"

// An Option changes a chart before it is packed. Options apply in their order.
type Option func(*source)

// source is a chart to be packed: its files by path below the folder of the chart.
type source struct {
	folder string
	files  map[string][]byte
}

// Name gives the chart another name.
func Name(name string) Option {
	return func(s *source) {
		s.folder = name
		s.set("name", name)
	}
}

// Version gives the chart another version.
func Version(version string) Option { return func(s *source) { s.set("version", version) } }

// AppVersion gives what the chart deploys another version.
func AppVersion(version string) Option { return func(s *source) { s.set("appVersion", version) } }

// File adds a file, or replaces one. The path is relative to the folder of the chart, such as "templates/extra.yaml".
func File(path, content string) Option {
	return func(s *source) { s.files[path] = []byte(content) }
}

// Without leaves a file out.
func Without(path string) Option { return func(s *source) { delete(s.files, path) } }

// set gives a field at the top of the chart's metadata another value.
func (s *source) set(field, value string) {
	line := regexp.MustCompile(`(?m)^` + field + `:.*$`)
	s.files[metadataFile] = line.ReplaceAllLiteral(s.files[metadataFile], fmt.Appendf(nil, "%s: %q", field, value))
}

// Names returns the names of the charts that Pack packs, sorted.
func Names() []string {
	entries, err := sources.ReadDir(".")
	must(err)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// Pack returns a chart as an archive, the same bytes each time. It panics if there is no chart of that name; see Names.
func Pack(name string, opts ...Option) []byte {
	s := read(name)
	for _, o := range opts {
		o(s)
	}
	return pack(s)
}

// read returns the chart in the folder of that name.
func read(name string) *source {
	s := &source{folder: name, files: map[string][]byte{}}
	err := fs.WalkDir(sources, name, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := sources.ReadFile(file)
		s.files[strings.TrimPrefix(file, name+"/")] = content
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no chart %q, only %s", name, strings.Join(Names(), ", "))
	}
	must(err)
	return s
}

// pack writes what a chart is called first, as Helm does, so that it can be found out without reading all of it.
func pack(s *source) []byte {
	names := slices.SortedFunc(maps.Keys(s.files), func(a, b string) int {
		if (a == metadataFile) != (b == metadataFile) {
			return map[bool]int{true: -1, false: 1}[a == metadataFile]
		}
		return strings.Compare(a, b)
	})
	level, size := gzip.BestCompression, 0
	for _, content := range s.files {
		if size += len(content); size > quick {
			level = gzip.BestSpeed
		}
	}
	t := newArchive(level)
	for _, name := range names {
		t.file(path.Join(s.folder, name), s.files[name])
	}
	return t.bytes()
}

// archive is a gzipped tar in the making. What is written to it goes to memory, which does not fail.
type archive struct {
	buffer bytes.Buffer
	zip    *gzip.Writer
	tar    *tar.Writer
}

func newArchive(level int) *archive {
	a := &archive{}
	var err error
	a.zip, err = gzip.NewWriterLevel(&a.buffer, level)
	must(err)
	a.tar = tar.NewWriter(a.zip)
	return a
}

func (a *archive) file(name string, content []byte) {
	a.entry(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content)
}

func (a *archive) entry(header *tar.Header, content []byte) {
	header.ModTime, header.Size = modTime, int64(len(content))
	must(a.tar.WriteHeader(header))
	_, err := a.tar.Write(content)
	must(err)
}

func (a *archive) bytes() []byte {
	must(a.tar.Close())
	must(a.zip.Close())
	return a.buffer.Bytes()
}

// must panics with an error that only a mistake in this package, or in a call of it, can cause.
func must(err error) {
	if err != nil {
		panic(err) //nolint:forbidigo // a mistake in the test, which has nothing to go on with
	}
}
