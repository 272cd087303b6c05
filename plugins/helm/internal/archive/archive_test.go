package archive_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/archive"
	"github.com/pergola-deploy/pergola/test/charts"
)

func TestReadReturnsTheFilesOfTheArchive(t *testing.T) {
	t.Parallel()
	raw := pack(t, shop(
		special(tar.Header{Name: "shop/templates/", Typeflag: tar.TypeDir, Mode: 0o755}),
		file("templates/a.yaml", "a"),
		file("values.yaml", "\ufeffa: 1\n"),
		file("empty", ""),
		file("charts/.hidden/not a chart", "b"),
	)...)

	files, err := read(raw, generous)
	if err != nil {
		t.Fatal(err)
	}

	want := []archive.File{
		{Name: "Chart.yaml", Data: []byte(aboutShop)},
		{Name: "templates/a.yaml", Data: []byte("a")},
		{Name: "values.yaml", Data: []byte("a: 1\n")},
		{Name: "empty", Data: []byte{}},
		{Name: "charts/.hidden/not a chart", Data: []byte("b")},
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files, -want +got:\n%s", diff)
	}
}

func TestEntriesThatAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a/", 600)
	cases := []struct {
		reason string
		entry  entry
		kind   archive.Kind
		says   string
	}{
		{"an absolute name leads out of every folder", entry{name: "/etc/passwd"}, archive.Invalid, "absolute"},
		{"a name may not lead out of the folder", entry{name: "shop/../../evil"}, archive.Invalid, `".."`},
		{"nor of a folder in it, though it stays in the chart", entry{name: "shop/templates/../evil"}, archive.Invalid, `".."`},
		{"nor may the folder", entry{name: "../shop/evil"}, archive.Invalid, `".."`},
		{"Helm takes a backslash for a separator", entry{name: `shop\..\evil`}, archive.Invalid, `"\"`},
		{"though only one is in the name", entry{name: `shop/a\b`}, archive.Invalid, `"\"`},
		{"a drive makes a name absolute elsewhere", entry{name: "c:/evil"}, archive.Invalid, "drive"},
		{"even after the folder", entry{name: "shop/c:/evil"}, archive.Invalid, "drive"},
		{"two names may not be one", entry{name: "shop/./evil"}, archive.Invalid, `"shop/evil"`},
		{"nor with two slashes", entry{name: "shop//evil"}, archive.Invalid, `"shop/evil"`},
		{"nor with one in front", entry{name: "./shop/evil"}, archive.Invalid, `"shop/evil"`},
		{"a control character spoils a terminal", entry{name: "shop/\x1b[2J"}, archive.Invalid, "characters"},
		{"a name is a text", entry{name: "shop/\xff\xfe"}, archive.Invalid, "characters"},
		{"a name is no novel", entry{name: "shop/" + long + "a"}, archive.LimitExceeded, "1206 bytes"},
		{"what is beside the folder is of no chart", entry{name: "evil"}, archive.Invalid, "not in the chart's folder"},
		{"what is in another folder is of another chart", entry{name: "other/evil"}, archive.Invalid, `the folder "shop"`},
		{"a folder counts, too", special(tar.Header{Name: "other/", Typeflag: tar.TypeDir}), archive.Invalid, `the folder "shop"`},
		{"names of folders lead elsewhere, too", special(tar.Header{Name: "shop/../..", Typeflag: tar.TypeDir}), archive.Invalid, `".."`},
		{"which of two files counts is a matter of taste", file("Chart.yaml", aboutShop), archive.Invalid, "twice"},
		{"a link leads anywhere", special(tar.Header{Name: "shop/evil", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), archive.Invalid, "symbolic link"},
		{"also one that stays in the chart", special(tar.Header{Name: "shop/evil", Typeflag: tar.TypeSymlink, Linkname: "Chart.yaml"}), archive.Invalid, "symbolic link"},
		{"also a hard one", special(tar.Header{Name: "shop/evil", Typeflag: tar.TypeLink, Linkname: "shop/Chart.yaml"}), archive.Invalid, "hard link"},
		{"a device is no file", special(tar.Header{Name: "shop/evil", Typeflag: tar.TypeChar}), archive.Invalid, "device"},
		{"also one of blocks", special(tar.Header{Name: "shop/evil", Typeflag: tar.TypeBlock}), archive.Invalid, "device"},
		{"a pipe has no end", special(tar.Header{Name: "shop/evil", Typeflag: tar.TypeFifo}), archive.Invalid, "pipe"},
		{"a type that nobody knows", special(tar.Header{Name: "shop/evil", Typeflag: 'Z'}), archive.Invalid, "neither"},
		{
			"Helm would take a file with the mode of a folder for a folder", entry{name: "shop/evil", header: tar.Header{Mode: 0o40755}},
			archive.Invalid, "neither",
		},
		{"Helm does not load a larger file", file("big", strings.Repeat("a", 5<<20+1)), archive.LimitExceeded, "5242880"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			_, err := read(pack(t, shop(c.entry)...), generous)
			refused(t, err, c.kind, c.entry.name, c.says)
			if message := err.Error(); len(message) > 600 || strings.ContainsAny(message, "\x1b\n") || !strings.Contains(message, "of the chart") {
				t.Errorf("the message %q is not fit to be shown", message)
			}
		})
	}
}

// A hole is refused though it is a small one. Go's tar does not write such files, so the records that make the file one are written as a file
// of their own, whose type is changed after that.
func TestSparseFilesAreRefused(t *testing.T) {
	t.Parallel()
	stream := tarOf(t, []entry{
		file("records", "22 GNU.sparse.major=0\n22 GNU.sparse.minor=1\n23 GNU.sparse.size=600\n26 GNU.sparse.numblocks=1\n22 GNU.sparse.map=0,0\n"),
		file("Chart.yaml", ""),
	})
	const typeAt, sumAt = 156, 148
	stream[typeAt] = tar.TypeXHeader
	copy(stream[sumAt:], "        ") // as it counts towards the sum
	sum := 0
	for _, c := range stream[:512] {
		sum += int(c)
	}
	copy(stream[sumAt:], fmt.Sprintf("%06o\x00 ", sum))

	_, err := read(zip(t, stream), generous)
	refused(t, err, archive.Invalid, "shop/Chart.yaml", "is a sparse file")
}

func TestStreamsThatAreRefused(t *testing.T) {
	t.Parallel()
	good := tarOf(t, shop())
	random := bytes.Repeat([]byte("a"), 1024)
	cases := []struct {
		reason string
		raw    []byte
		says   string
	}{
		{"nothing", nil, "ends too early"},
		{"no gzip", good, "is not gzipped"},
		{"no tar", zip(t, random), "not a tar archive"},
		{"no files", zip(t, tarOf(t, nil)), "holds no files"},
		{"folders only", zip(t, tarOf(t, []entry{special(tar.Header{Name: "shop/", Typeflag: tar.TypeDir})})), "holds no files"},
		{"the end is missing", zip(t, good)[:100], "ends too early"},
		{"the sum is wrong", damage(zip(t, good)), "is damaged"},
		{"a second archive follows, which Helm would not read", zip(t, good, good), "goes on after its end"},
		{"something follows that is not packed", append(zip(t, good), "evil evil evil"...), "goes on after its end"},
		{"a file ends before its size", zip(t, good[:530]), "ends too early"},
		{"Chart.yaml is missing", pack(t, file("values.yaml", "")), "has no file Chart.yaml"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			_, err := read(c.raw, generous)
			refusal, ok := errors.AsType[*archive.Error](err)
			if !ok || refusal.Kind != archive.Invalid || !strings.Contains(refusal.Reason, c.says) {
				t.Errorf("expected a refusal with %q, but found %v", c.says, err)
			}
		})
	}
}

// damage changes the sum at the end of a gzip member.
func damage(raw []byte) []byte {
	raw = bytes.Clone(raw)
	raw[len(raw)-8] ^= 0xff
	return raw
}

func TestOdditiesThatAreHarmless(t *testing.T) {
	t.Parallel()
	good := tarOf(t, shop(file("values.yaml", "a: 1\n")))
	cases := []struct {
		reason string
		raw    []byte
	}{
		{"git writes the commit into a header for all files", pack(t, append([]entry{special(tar.Header{
			Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "0123"},
		})}, shop()...)...)},
		{"names and times are in records of their own", pack(t, shop(entry{
			name: "shop/templates/" + strings.Repeat("ä", 200), header: tar.Header{Format: tar.FormatPAX, PAXRecords: map[string]string{"VENDOR.a": "b"}},
		})...)},
		{"GNU's tar pads to 10 KiB", zip(t, good, make([]byte, 8192))},
		{"members of gzip go on where the one before has ended", zip(t, good[:700], good[700:])},
		{"an archive may end without its end", zip(t, good[:len(good)-1024])},
		{"a folder comes after what is in it", pack(t, shop(file("a/b", ""), special(tar.Header{Name: "shop/a/", Typeflag: tar.TypeDir}))...)},
		{"files differ by case", pack(t, shop(file("README.md", ""), file("readme.md", ""))...)},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			files, err := read(c.raw, generous)
			if err != nil || files[0].Name != "Chart.yaml" {
				t.Errorf("expected the chart, but found %v and %v", files, err)
			}
			sameAsHelm(t, c.raw, files)
		})
	}
}

func TestLimitsHoldOverAllLevels(t *testing.T) {
	t.Parallel()
	// Three levels with 12 entries; what is packed counts as it is, and unpacked.
	inner := packed(t, "inner", file("a", ""), file("b", ""), file("c", strings.Repeat("c", 100_000)))
	middle := packed(t, "middle", file("charts/inner-1.tgz", inner), file("a", ""), file("b", ""))
	raw := pack(t, shop(file("charts/middle-1.tgz", middle), file("charts/folder/Chart.yaml", "name: folder\nversion: 1.0.0\n"), file("a", ""))...)
	size := len(unzipped(t, raw)) + len(unzipped(t, []byte(middle))) + len(unzipped(t, []byte(inner)))
	exact := archive.Limits{UnpackedBytes: int64(size), Files: 12, Depth: 2}

	if _, err := read(raw, exact); err != nil {
		t.Errorf("a chart at its limits is refused: %v", err)
	}

	cases := []struct {
		reason string
		change func(*archive.Limits)
		file   string
		says   string
	}{
		{"one byte too many, which is padding", func(l *archive.Limits) { l.UnpackedBytes-- }, "charts/middle-1.tgz/charts/inner-1.tgz", "unpacks to more"},
		{"no room for the last file", func(l *archive.Limits) { l.UnpackedBytes -= 100_000 }, "charts/middle-1.tgz/charts/inner-1.tgz/inner/c", "is too large"},
		{"no room for anything", func(l *archive.Limits) { l.UnpackedBytes = 10 }, "", "is larger than the 10 bytes"},
		{"one file too many", func(l *archive.Limits) { l.Files-- }, "charts/middle-1.tgz/charts/inner-1.tgz/inner/c", "11 files"},
		{"one level too many", func(l *archive.Limits) { l.Depth-- }, "charts/middle-1.tgz/charts/inner-1.tgz", "depth 2"},
		{"folders are levels, too", func(l *archive.Limits) { l.Depth = 0 }, "charts/folder", "depth 1"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			limits := exact
			c.change(&limits)
			_, err := read(raw, limits)
			refused(t, err, archive.LimitExceeded, c.file, c.says)
		})
	}
}

// The members decompress to nothing, so that only what is packed can end this.
func TestReadEndsThoughTheArchiveDoesNot(t *testing.T) {
	t.Parallel()
	member := zip(t, nil)
	endless := io.MultiReader(bytes.NewReader(zip(t, tarOf(t, shop()))), &repeating{what: member})
	_, err := archive.Read(endless, archive.Limits{UnpackedBytes: 1 << 20, Files: 10, Depth: 1})
	refused(t, err, archive.LimitExceeded, "", "is larger than")
}

type repeating struct {
	what []byte
	at   int
}

func (r *repeating) Read(p []byte) (int, error) {
	n := copy(p, r.what[r.at:])
	r.at = (r.at + n) % len(r.what)
	return n, nil
}

func TestErrorsOfTheReaderAreNoRefusals(t *testing.T) {
	t.Parallel()
	raw := pack(t, shop()...)
	failed := errors.New("the disk is gone")
	for _, before := range []int{0, 5, 100, len(raw)} {
		_, err := archive.Read(io.MultiReader(bytes.NewReader(raw[:before]), iotest.ErrReader(failed)), generous)
		if _, ok := errors.AsType[*archive.Error](err); ok || !errors.Is(err, failed) {
			t.Errorf("after %d bytes: expected the error of the reader, but found %v", before, err)
		}
	}
	if _, err := archive.Read(iotest.OneByteReader(bytes.NewReader(raw)), generous); err != nil {
		t.Errorf("a slow reader: %v", err)
	}
}

// What is left for Helm to say, because it says it well.
var leftToHelm = []string{"schema-no-json", "schema-ref-itself", "values-invalid-utf8"}

func TestHostileChartsAreRefused(t *testing.T) {
	t.Parallel()
	limits := archive.Limits{UnpackedBytes: 16 << 20, Files: 2000, Depth: 4}
	for _, kind := range charts.HostileKinds(charts.Unpacking, charts.Loading) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			_, err := read(charts.Hostile(kind), limits)
			if slices.Contains(leftToHelm, kind) {
				if err != nil {
					t.Errorf("expected that Helm is asked, but found %v", err)
				}
				return
			}
			if _, ok := errors.AsType[*archive.Error](err); !ok {
				t.Errorf("expected a refusal, but found %v", err)
			}
		})
	}
}
