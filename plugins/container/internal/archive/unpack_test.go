package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

func dirEntry(name string) entry { return special(tar.Header{Name: name, Typeflag: tar.TypeDir}) }

func TestUnpack(t *testing.T) {
	t.Parallel()
	plain := entry{name: "dir/file", content: "1", header: tar.Header{Mode: 0o640, Uid: 12, Uname: "me"}}
	want := content{"dir/": "", "dir/file": "1"}
	good, long := pack(t, plain), strings.Repeat("a", 120)
	for _, c := range []struct {
		reason string
		raw    []byte
		want   content
	}{
		{"directories need no entries", good, want},
		{"Landscaper writes the directory itself", pack(t, dirEntry("."), dirEntry("dir"), plain), want},
		{"others write it with a slash", pack(t, dirEntry("./"), dirEntry("dir/"), plain), want},
		{
			"and all names below it", pack(t, dirEntry("./"), dirEntry("./dir/"), entry{name: "./dir/file", content: "1"}),
			want,
		},
		{"a directory may come after what is in it", pack(t, plain, dirEntry("dir/")), want},
		{"a directory may be empty", pack(t, dirEntry("a/b/")), content{"a/": "", "a/b/": ""}},
		{"some may execute, so all may", pack(t, entry{name: "x", header: tar.Header{Mode: 0o2010}}), content{"x": ""}},
		{"nobody gets the rights of others", pack(t, entry{name: "a", header: tar.Header{Mode: 0o6666}}), content{"a": ""}},
		{"an archive may hold nothing", pack(t), content{}},
		{"an archive may end without its end", zip(t, tarOf(t, plain)[:1024]), want},
		{"what Landscaper had in its buffer comes behind", append(bytes.Clone(good), strings.Repeat("old", 100)...), want},
		{"that may look like an archive", append(bytes.Clone(good), pack(t, entry{name: "evil"})...), want},
		{"or be nothing but zeros", append(bytes.Clone(good), make([]byte, 5000)...), want},
		{"what comes behind the tar is not looked at", zip(t, append(tarOf(t, plain), "evil"...)), want},
		{"times, owners and long names are in records", pack(t, entry{name: strings.Repeat("ä", 120), header: tar.Header{
			Format: tar.FormatPAX, PAXRecords: map[string]string{"VENDOR.a": "b"},
		}}), content{strings.Repeat("ä", 120): ""}},
		{"GNU's tar has its own", pack(t, entry{name: long, header: tar.Header{Format: tar.FormatGNU}}), content{long: ""}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			root, dir := newRoot(t)
			must(t, unpack(c.raw, root))
			if diff := cmp.Diff(c.want, read(t, dir+"/state")); diff != "" {
				t.Errorf("files, -want +got:\n%s", diff)
			}
			must(t, archive.Unpack(iotest.OneByteReader(bytes.NewReader(c.raw)), root, "state"))
		})
	}
}

// Links that are there lead nowhere; what was a file is another one.
func TestUnpackReplaces(t *testing.T) {
	t.Parallel()
	root, dir := newRoot(t)
	content{"outside": "mine", "state/plain": "old and longer", "state/x": "old", "state/kept/file": "kept"}.write(t, dir)
	must(t, os.Symlink("../outside", dir+"/state/link"))
	must(t, unpack(pack(t, entry{name: "plain", content: "new"}, entry{name: "x", header: tar.Header{Mode: 0o755}},
		entry{name: "link", content: "new"}, entry{name: "kept/new"}), root))
	want := content{
		"outside": "mine", "state/": "", "state/plain": "new", "state/x": "", "state/link": "new", "state/kept/": "",
		"state/kept/file": "kept", "state/kept/new": "",
	}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("files, -want +got:\n%s", diff)
	}
}

// What was unpacked before, or is a link, is not written through.
func TestUnpackRefusesWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for name, c := range map[string]struct {
		make  func(state string) error
		entry string
	}{
		"a file cannot replace a directory": {func(s string) error { return os.MkdirAll(s+"/a/b", 0o755) }, "a"},
		"nor an empty one":                  {func(s string) error { return os.Mkdir(s+"/a", 0o755) }, "a"},
		"a file has no files":               {func(s string) error { return os.WriteFile(s+"/a", nil, 0o600) }, "a/b"},
		"a link leads elsewhere":            {func(s string) error { return os.Symlink(outside, s+"/a") }, "a/b"},
		"a link stays within":               {func(s string) error { return os.Symlink("../content", s+"/a") }, "a/b"},
	} {
		root, dir := newRoot(t)
		must(t, os.Mkdir(dir+"/content", 0o755))
		must(t, c.make(dir+"/state"))
		if err := unpack(pack(t, entry{name: c.entry}), root); err == nil {
			t.Errorf("%s: expected an error, but found none", name)
		}
		if found := read(t, dir+"/content"); len(found) > 0 {
			t.Errorf("%s: found %v beside it", name, found)
		}
	}
	if found := read(t, outside); len(found) > 0 {
		t.Errorf("found %v outside", found)
	}
}

// Rule (SECURITY.md#authors-of-items): An archive of the container deployer with links, or with paths out of it, is
// refused.
func TestUnpackRefuses(t *testing.T) {
	t.Parallel()
	var many, manyDirs []entry
	for i := range layout.MaxFiles + 1 {
		many = append(many, entry{name: fmt.Sprint("d", i)})
	}
	for i := range layout.MaxFiles/10 + 1 {
		manyDirs = append(manyDirs, entry{name: fmt.Sprint(i, "/1/2/3/4/5/6/7/8/f")})
	}
	a := entry{name: "a"}
	for _, c := range []struct {
		reason  string
		entries []entry
		path    string
		says    string
	}{
		{"an absolute name leads out", []entry{{name: "/etc/passwd"}}, "/etc/passwd", "absolute"},
		{"so does one with dots", []entry{{name: "../evil"}}, "../evil", `".."`},
		{"even if it comes back", []entry{{name: "a/../evil"}}, "a/../evil", `".."`},
		{"the directory itself is no file", []entry{{name: "."}}, ".", "no name of a file"},
		{"a name has an end", []entry{{name: longName}}, longName, "1025 bytes"},
		{
			"a link leads anywhere",
			[]entry{special(tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc"}), {name: "a/b"}}, "a",
			"symbolic",
		},
		{"also a hard one", []entry{a, special(tar.Header{Name: "b", Typeflag: tar.TypeLink, Linkname: "a"})}, "b", "hard"},
		{"a device is no file", []entry{special(tar.Header{Name: "a", Typeflag: tar.TypeChar})}, "a", "device"},
		{"a pipe has no end", []entry{special(tar.Header{Name: "a", Typeflag: tar.TypeFifo})}, "a", "pipe"},
		{"nobody knows that type", []entry{special(tar.Header{Name: "a", Typeflag: 'Z'})}, "a", "neither"},
		{"two files of a name are one too many", []entry{a, a}, "a", "twice"},
		{"however it is spelt", []entry{a, {name: "./a"}}, "a", "twice"},
		{"also of directories", []entry{dirEntry("a/"), dirEntry("./a")}, "a", "twice"},
		{"and of both", []entry{dirEntry("a/"), a}, "a", "twice"},
		{"a file is no directory", []entry{a, {name: "a/b"}}, "a/b", `"a", but that is a file`},
		{"nor is a directory that has no entry a file", []entry{{name: "a/b"}, a}, "a", "twice"},
		{"files are counted", many, fmt.Sprint("d", layout.MaxFiles), "10000"},
		{"so are directories without entries", manyDirs, fmt.Sprint(layout.MaxFiles/10, "/1/2/3/4/5/6/7/8/f"), "10000"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			root, dir := newRoot(t)
			err := unpack(pack(t, c.entries...), root)
			refused(t, err, c.path, c.says)
			if found, err := os.ReadDir(dir); err != nil || len(found) != 1 {
				t.Errorf("found %v beside the directory (%v)", found, err)
			}
		})
	}
}

// A hole is refused, however small. Go's tar does not write such files, so the records that make the file one are
// written as a file of their own, whose type is changed after that.
func TestSparseFilesAreRefused(t *testing.T) {
	t.Parallel()
	stream := tarOf(t, entry{
		name: "records",
		content: "22 GNU.sparse.major=0\n22 GNU.sparse.minor=1\n23 GNU.sparse.size=600\n26 GNU.sparse.numblocks=1\n22 " +
			"GNU.sparse.map=0,0\n",
	}, entry{name: "a"})
	const typeAt, sumAt = 156, 148
	stream[typeAt] = tar.TypeXHeader
	copy(stream[sumAt:], "        ") // as it counts towards the sum
	sum := 0
	for _, c := range stream[:512] {
		sum += int(c)
	}
	copy(stream[sumAt:], fmt.Sprintf("%06o\x00 ", sum))
	root, _ := newRoot(t)
	refused(t, unpack(zip(t, stream), root), "a", "is a sparse file")
}

func TestUnpackRefusesWhatIsNoArchive(t *testing.T) {
	t.Parallel()
	stream := tarOf(t, entry{name: "a", content: strings.Repeat("text", 1000)})
	good := zip(t, stream)
	wrongSum := bytes.Clone(good)
	wrongSum[len(wrongSum)-8] ^= 0xff
	for name, c := range map[string]struct {
		raw  []byte
		says string
	}{
		"nothing":                     {nil, "ends too early"},
		"no gzip":                     {stream, "cannot be read"},
		"no tar":                      {zip(t, bytes.Repeat([]byte("a"), 1024)), "cannot be read"},
		"a chunk is missing":          {good[:len(good)-20], "ends too early"},
		"the sum is missing":          {good[:len(good)-4], "ends too early"},
		"the sum is wrong":            {wrongSum, "cannot be read"},
		"a file ends before its size": {zip(t, stream[:1000]), "ends too early"},
	} {
		t.Run(name, func(t *testing.T) {
			root, _ := newRoot(t)
			refused(t, unpack(c.raw, root), "", c.says)
		})
	}
}

// zeros compress well: an archive of a few kilobytes is refused before it fills the disk, and a single file before it
// is written.
func TestUnpackLimitsBytes(t *testing.T) {
	t.Parallel()
	const most, block = layout.MaxUnpackedBytes, 1 << 20
	file := func(name string, size, written int64) io.Reader {
		var b bytes.Buffer
		must(t, tar.NewWriter(&b).WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size}))
		return io.MultiReader(&b, io.LimitReader(zeroReader{}, written))
	}
	for name, stream := range map[string]io.Reader{
		"a": file("a", most+1, 1<<30),
		"b": io.MultiReader(file("a", block, block), file("b", most-block+512, 1<<30)), // all files count
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, dir := newRoot(t)
			packed, w := io.Pipe()
			go func() {
				z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
				_, err := io.Copy(z, stream)
				_ = w.CloseWithError(errors.Join(err, z.Close()))
			}()
			err := archive.Unpack(packed, root, "state")
			_ = packed.Close()
			refused(t, err, name, "bytes than the limit of 268435456")
			if found := read(t, dir+"/state"); name == "a" && len(found) > 0 {
				t.Errorf("found %d files", len(found))
			}
		})
	}
}

// Records are for an entry that comes after them, and here it never does.
func TestUnpackLimitsRecords(t *testing.T) {
	t.Parallel()
	records := tarOf(t, entry{
		name:   "a",
		header: tar.Header{Format: tar.FormatPAX, PAXRecords: map[string]string{"VENDOR.a": strings.Repeat("b", 1_000_000)}},
	})
	records = records[:len(records)-3*512] // without the entry itself and the end
	var start, block bytes.Buffer
	must(t, gzip.NewWriter(&start).Flush())
	z, err := flate.NewWriter(&block, flate.BestSpeed)
	must(t, err)
	_, err = z.Write(records)
	must(t, errors.Join(err, z.Flush()))
	all := []io.Reader{&start}
	for range 2 * layout.MaxUnpackedBytes / len(records) {
		all = append(all, bytes.NewReader(block.Bytes()))
	}
	root, dir := newRoot(t)
	refused(t, archive.Unpack(io.MultiReader(all...), root, "state"), "", "bytes than the limit of 268435456")
	if found := read(t, dir+"/state"); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// What cannot be written is no fault of the archive.
func TestErrorsOfTheDiskAreNoRefusals(t *testing.T) {
	t.Parallel()
	root, _ := newRoot(t)
	if err := unpack(pack(t, entry{name: strings.Repeat("a", 300)}), root); !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("expected an error of the disk, but found %v", err)
	}
}
