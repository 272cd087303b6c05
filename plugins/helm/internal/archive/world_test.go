package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/archive"
)

// generous are limits that no good chart here comes near.
var generous = archive.Limits{UnpackedBytes: 32 << 20, Files: 2000, Depth: 4}

const aboutShop = "apiVersion: v2\nname: shop\nversion: 1.0.0\n"

// entry is an entry of an archive; a file unless type says otherwise.
type entry struct {
	name, content string
	header        tar.Header
}

// file is a file below the folder shop.
func file(name, content string) entry { return entry{name: "shop/" + name, content: content} }

var linkHeader = tar.Header{Typeflag: tar.TypeSymlink, Linkname: "Chart.yaml"}

// special is an entry with a header of its own.
func special(header tar.Header) entry { return entry{name: header.Name, header: header} }

// shop is the smallest chart, with more entries.
func shop(more ...entry) []entry {
	return append([]entry{file("Chart.yaml", aboutShop)}, more...)
}

// tarOf writes a tar archive.
func tarOf(t helper, entries []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		header := e.header
		header.Name = e.name
		if header.Typeflag == 0 {
			header.Typeflag = tar.TypeReg
		}
		if header.Typeflag == tar.TypeReg {
			header.Size = int64(len(e.content))
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
	return b.Bytes()
}

// zip compresses, each argument to a member of its own.
func zip(t helper, members ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, member := range members {
		w := gzip.NewWriter(&b)
		if _, err := w.Write(member); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func pack(t helper, entries ...entry) []byte {
	t.Helper()
	return zip(t, tarOf(t, entries))
}

// helper is what can fail a test: that of the testing package, or rapid's.
type helper interface {
	Helper()
	Fatal(args ...any)
}

// packed is the archive of a sub-chart.
func packed(t helper, name string, more ...entry) string {
	t.Helper()
	entries := []entry{{name: name + "/Chart.yaml", content: "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n"}}
	for _, e := range more {
		e.name = name + strings.TrimPrefix(e.name, "shop")
		entries = append(entries, e)
	}
	return string(pack(t, entries...))
}

func read(raw []byte, limits archive.Limits) ([]archive.File, error) {
	return archive.Read(bytes.NewReader(raw), limits)
}

// refused fails the test unless err is a refusal of the kind for the file that says so.
func refused(t *testing.T, err error, kind archive.Kind, name, reason string) {
	t.Helper()
	refusal, ok := errors.AsType[*archive.Error](err)
	if !ok {
		t.Fatalf("expected a refusal, but found %v", err)
	}
	if refusal.Kind != kind || refusal.File != name || !strings.Contains(refusal.Reason, reason) {
		t.Errorf("expected %s for %q with %q, but found %s for %q: %s", kind, name, reason, refusal.Kind, refusal.File, refusal.Reason)
	}
}
