package archive_test

import (
	"archive/tar"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// FuzzUnpack: whatever an archive holds, nothing is changed outside the directory, and in it are regular files and
// directories within the limits. What is accepted can be packed again. Each input is tried as it is and compressed.
func FuzzUnpack(f *testing.F) {
	for _, entries := range [][]entry{
		{},
		{dirEntry("./"), dirEntry("dir/"), {name: "dir/file", content: "text"}, {name: "x", header: tar.Header{Mode: 0o755}}},
		{special(tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "../outside"}), {name: "a", content: "evil"}},
		{special(tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "../outside"}), {name: "a", content: "evil"}},
		{{name: "../outside", content: "evil"}, {name: "./a/../../outside"}},
		{{name: "ä", header: tar.Header{Format: tar.FormatPAX, PAXRecords: map[string]string{"V.a": "b"}}}},
	} {
		f.Add(tarOf(f, entries...))
		f.Add(append(pack(f, entries...), "behind it"...))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkUnpack(t, raw)
		checkUnpack(t, zip(t, raw))
	})
}

func checkUnpack(t *testing.T, raw []byte) {
	t.Helper()
	root, dir := newRoot(t)
	content{"outside": "mine"}.write(t, dir)
	err := unpack(raw, root)
	if text, readErr := os.ReadFile(dir + "/outside"); readErr != nil || string(text) != "mine" {
		t.Fatalf("what is outside was changed to %q (%v)", text, readErr)
	}
	if beside, err := os.ReadDir(dir); err != nil || len(beside) != 2 {
		t.Fatalf("found %v (%v)", beside, err)
	}
	if found := list(t, dir+"/state"); found > layout.MaxFiles {
		t.Fatalf("found %d files and directories", found)
	}
	if err != nil {
		return
	}
	packed, err := archiveOf(root, "state", generous)
	if err != nil {
		t.Fatalf("what was unpacked cannot be packed: %v", err)
	}
	if packed == nil {
		return
	}
	other, _ := newRoot(t)
	if err := unpack(packed, other); err != nil {
		t.Errorf("what was packed cannot be unpacked: %v", err)
	}
}

// list counts what is in a directory, all of which must be regular files and directories.
func list(t *testing.T, dir string) (count int) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && path != dir {
			count++
			if !entry.IsDir() && !entry.Type().IsRegular() {
				t.Errorf("%q has the type %s", path, entry.Type())
			}
		}
		return err
	}))
	return count
}
