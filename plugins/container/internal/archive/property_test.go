package archive_test

import (
	"bytes"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// trees are such as can be in a file system.
func trees() *rapid.Generator[content] {
	part := rapid.OneOf(rapid.StringMatching(`[a-c]`), rapid.StringMatching(`x?[a-zA-Zäöü. ~\\:-]{1,30}`),
		rapid.StringMatching(`[a-z]{101,140}`)).
		Filter(func(s string) bool { return s != "." && s != ".." })
	return rapid.Custom(func(t *rapid.T) content {
		c := content{}
		taken := map[string]bool{} // whether it is a directory
		for range rapid.IntRange(0, 12).Draw(t, "entries") {
			name := path.Join(rapid.SliceOfN(part, 1, 5).Draw(t, "name")...)
			isDir := rapid.Bool().Draw(t, "is a directory")
			if _, found := taken[name]; found || !room(taken, name) {
				continue
			}
			for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
				taken[parent] = true
				c[parent+"/"] = ""
			}
			taken[name] = isDir
			if isDir {
				c[name+"/"] = ""
				continue
			}
			c[name] = string(rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "content"))
		}
		if rapid.IntRange(0, 9).Draw(t, "needs chunks") == 0 {
			size := rapid.IntRange(layout.ChunkBytes/2, 5*layout.ChunkBytes/2).Draw(t, "size")
			noise := make([]byte, size)
			_, _ = rand.NewChaCha8([32]byte{byte(size)}).Read(noise)
			c["noise"] = string(noise)
		}
		return c
	})
}

// room tells whether all that is above a name is a directory or can be one.
func room(taken map[string]bool, name string) bool {
	for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
		if isDir, found := taken[parent]; found && !isDir {
			return false
		}
	}
	return name != "noise" && !strings.HasPrefix(name, "noise/")
}

// What is packed, split, filled up as Landscaper does, joined and unpacked is the same, and packs to the same.
func TestWhatIsPackedIsUnpacked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := trees().Draw(t, "tree")
		root, dir := newRoot(t)
		want.write(t, dir+"/state")
		packed, err := archiveOf(root, "state", generous)
		must(t, err)
		if len(want) == 0 {
			return
		}

		chunks := archive.Split(packed)
		last := len(chunks) - 1
		if rapid.Bool().Draw(t, "filled up") {
			buffer := bytes.Repeat([]byte("old"), layout.ChunkBytes/3+1)[:layout.ChunkBytes]
			if last > 0 {
				buffer = bytes.Clone(chunks[last-1])
			}
			copy(buffer, chunks[last])
			chunks[last] = buffer
		}
		other, otherDir := newRoot(t)
		must(t, archive.Unpack(archive.Join(chunks), other, "state"))
		if diff := cmp.Diff(want, read(t, otherDir+"/state")); diff != "" {
			t.Errorf("files, -packed +unpacked:\n%s", diff)
		}
		again, err := archiveOf(other, "state", int64(len(packed)))
		if err != nil || !bytes.Equal(again, packed) {
			t.Errorf("it packs to another archive (%v)", err)
		}
	})
}
