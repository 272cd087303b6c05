package archive_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// TestPackMakesTheSameOfTheSame: when files were written, and who may read them, makes no other archive.
func TestPackMakesTheSameOfTheSame(t *testing.T) {
	t.Parallel()
	var first []byte
	for i := range 3 {
		root, dir := newRoot(t)
		content{"b": "2", "a/z": "1", "empty/": ""}.write(t, dir+"/state")
		must(t, os.Chtimes(dir+"/state/b", time.Unix(int64(i), 0), time.Unix(int64(i), 0)))
		must(t, os.Chmod(dir+"/state/a/z", []fs.FileMode{0o600, 0o644, 0o666}[i]))
		must(t, os.Chmod(dir+"/state/empty", []fs.FileMode{0o700, 0o750, 0o777}[i]))
		packed, err := archiveOf(root, "state", generous)
		must(t, err)
		if first == nil {
			first = packed
		}
		if !bytes.Equal(first, packed) {
			t.Error("the same files made another archive")
		}
	}
}

func TestNothingToPack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, dir string
	}{
		"empty":   {"the image has kept nothing", "state"},
		"missing": {"the image may remove the directory", "elsewhere"},
		"deep":    {"and the one above it", "else/where"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, _ := newRoot(t)
			packed, err := archiveOf(root, c.dir, 0)
			if packed != nil || err != nil {
				t.Errorf("%s: expected neither an archive nor an error, but found %d bytes and %v", c.reason, len(packed), err)
			}
		})
	}
}

func TestPackRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		make   func(t *testing.T, dir string)
		path   string
		says   string
	}{
		"link out": {
			"the token of another container could be there", func(t *testing.T, dir string) {
				must(t, os.Symlink("/etc/passwd", dir+"/state/a"))
			},
			"state/a", "symbolic link",
		},
		"the directory is a link": {
			"the image may replace it, too", func(t *testing.T, dir string) {
				content{"b": "1"}.write(t, dir+"/other")
				must(t, os.Remove(dir+"/state"))
				must(t, os.Symlink("other", dir+"/state"))
			}, "state", "a directory",
		},
		"the directory is a file": {
			"or by a file", func(t *testing.T, dir string) {
				must(t, os.Remove(dir+"/state"))
				content{"state": "1"}.write(t, dir)
			}, "state", "is a regular file, but only a directory",
		},
		"pipe": {
			"nobody writes to it, and a read would never end", func(t *testing.T, dir string) {
				must(t, syscall.Mkfifo(dir+"/state/a", 0o600))
			},
			"state/a", "a pipe",
		},
		"socket": {
			"it cannot be read", func(t *testing.T, dir string) {
				l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", dir+"/state/a")
				must(t, err)
				t.Cleanup(func() { _ = l.Close() })
			}, "state/a", "a socket",
		},
		"device": {
			"it has no end", func(t *testing.T, dir string) {
				const zero = 1<<8 | 5
				if err := syscall.Mknod(dir+"/state/a", syscall.S_IFCHR|0o600, zero); err != nil {
					t.Skipf("devices cannot be made here: %v", err)
				}
			}, "state/a", "a device",
		},
		"sparse": {
			"what takes no room on the disk would take it in memory", func(t *testing.T, dir string) {
				content{"a": "1", "b": ""}.write(t, dir+"/state")
				must(t, os.Truncate(dir+"/state/b", layout.MaxUnpackedBytes))
			}, "state", "has more bytes in its files than the limit of 268435456; keep less",
		},
		"long name": {
			"a name has an end", func(t *testing.T, dir string) {
				root, err := os.OpenRoot(dir)
				must(t, err)
				defer root.Close()
				must(t, root.MkdirAll("state/"+longName, 0o755))
			}, "state/" + longName, "1025 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, dir := newRoot(t)
			c.make(t, dir)
			packed, err := archiveOf(root, "state", generous)
			if packed != nil {
				t.Errorf("%s: it was packed", c.reason)
			}
			refused(t, err, c.path, c.says)
		})
	}
}

// longName has one byte more than is allowed.
var longName = strings.Repeat("d/", 512) + "d"

func TestPackLimits(t *testing.T) {
	t.Parallel()
	root, dir := newRoot(t)
	noise := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	content{"a": string(noise), "b/c": "1"}.write(t, dir+"/state")
	packed, err := archiveOf(root, "state", generous)
	must(t, err)
	if again, err := archiveOf(root, "state", int64(len(packed))); err != nil || !bytes.Equal(again, packed) {
		t.Errorf("what is as large as is allowed is refused: %v", err)
	}
	_, err = archiveOf(root, "state", int64(len(packed)-1))
	refused(t, err, "state",
		fmt.Sprintf("has %d bytes when it is packed, but %d are allowed; keep less in it", len(packed), len(packed)-1))

	for i := range layout.MaxFiles - 3 { // besides a, b and b/c
		must(t, os.WriteFile(fmt.Sprintf("%s/state/b/%d", dir, i), nil, 0o644))
	}
	packed, err = archiveOf(root, "state", generous)
	must(t, err)
	other, _ := newRoot(t)
	if err := unpack(packed, other); err != nil {
		t.Errorf("what is packed is not unpacked: %v", err)
	}
	content{"d": ""}.write(t, dir+"/state")
	_, err = archiveOf(root, "state", generous)
	refused(t, err, "state", "more files and directories than the limit of 10000")
}

// Whatever others do to a directory while it is packed, nothing from outside gets into the archive, and packing ends.
func TestPackWhileOthersWrite(t *testing.T) {
	t.Parallel()
	root, dir := newRoot(t)
	outside := t.TempDir()
	content{"f": "s3cr3t"}.write(t, outside)
	state := dir + "/state/"
	tricks := []func(){
		func() { _ = os.Symlink(outside+"/f", state+"f") },
		func() { _ = os.WriteFile(state+"f", []byte("harmless"), 0o644) },
		func() { _ = syscall.Mkfifo(state+"f", 0o600) },
		func() { _ = os.Mkdir(state+"f", 0o755) },
		func() { _ = os.Symlink(outside, state+"d") },
		func() { _ = os.Mkdir(state+"d", 0o755); _ = os.WriteFile(state+"d/f", []byte("harmless"), 0o644) },
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = os.RemoveAll(state + "f")
				_ = os.RemoveAll(state + "d")
				tricks[i%len(tricks)]()
				tricks[(i*7+3)%len(tricks)]()
			}
		}
	}()
	for range 500 {
		packed, err := archiveOf(root, "state", generous)
		if err != nil || packed == nil {
			continue
		}
		other, otherDir := newRoot(t)
		must(t, unpack(packed, other))
		for name, text := range read(t, otherDir+"/state") {
			if strings.Contains(text, "s3cr3t") {
				t.Errorf("%s is from outside", name)
			}
		}
	}
	close(stop)
	<-stopped
}

func TestOpen(t *testing.T) {
	t.Parallel()
	root, dir := newRoot(t)
	content{"exports/values": "a: 1", "other/values": "b: 2"}.write(t, dir)
	must(t, os.Symlink("values", dir+"/exports/link"))
	must(t, os.Symlink("other", dir+"/linked"))
	must(t, syscall.Mkfifo(dir+"/exports/pipe", 0o600))

	f, err := archive.Open(root, "exports/values")
	must(t, err)
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil || string(text) != "a: 1" {
		t.Errorf("found %q and %v", text, err)
	}
	for _, missing := range []string{"exports/none", "none/values"} {
		if _, err := archive.Open(root, missing); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: expected that there is none, but found %v", missing, err)
		}
	}
	for _, c := range []struct {
		reason, name string
		path, says   string
	}{
		{"a link leads elsewhere", "exports/link", "exports/link", "a symbolic link, but only a regular file"},
		{"also one of a directory", "linked/values", "linked", "a symbolic link, but only a directory"},
		{"a pipe has no end", "exports/pipe", "exports/pipe", "a pipe"},
		{"a directory has no content", "exports", "exports", "a directory"},
		{"a file has no files", "exports/values/a", "exports/values", "a regular file"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			_, err := archive.Open(root, c.name)
			refused(t, err, c.path, c.says)
		})
	}
	if f, err := archive.Open(root, "../"+filepath.Base(dir)+"/exports/values"); err == nil {
		t.Errorf("%s was opened, although the path leads out of the root", f.Name())
	}
}

func TestFromFiles(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{"imports/import.json": []byte("{}"), "content/a/b": {0, 1}, "./content/c": nil}
	packed, err := archive.FromFiles(files)
	must(t, err)
	if again, err := archive.FromFiles(maps.Clone(files)); err != nil || !bytes.Equal(again, packed) {
		t.Errorf("the same files made another archive (%v)", err)
	}
	root, dir := newRoot(t)
	must(t, unpack(packed, root))
	want := content{
		"imports/": "", "imports/import.json": "{}", "content/": "", "content/a/": "", "content/a/b": "\x00\x01",
		"content/c": "",
	}
	if diff := cmp.Diff(want, read(t, dir+"/state")); diff != "" {
		t.Errorf("files, -want +got:\n%s", diff)
	}
	wantFiles := map[string][]byte{"imports/import.json": []byte("{}"), "content/a/b": {0, 1}, "content/c": {}}
	found, err := archive.Files(archive.Join(archive.Split(packed)))
	if diff := cmp.Diff(wantFiles, found); err != nil || diff != "" {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
	if _, err := archive.Files(bytes.NewReader(packed[:len(packed)/2])); err == nil {
		t.Error("half an archive was read")
	}
	nothing, err := archive.FromFiles(nil)
	must(t, err)
	must(t, unpack(nothing, root))
}

func TestFromFilesRefuses(t *testing.T) {
	t.Parallel()
	large := make([]byte, layout.MaxUnpackedBytes)
	for _, c := range []struct {
		reason string
		files  map[string][]byte
		path   string
		says   string
	}{
		{"it would be elsewhere", map[string][]byte{"/a": nil}, "/a", "absolute"},
		{"it has no name", map[string][]byte{"": nil}, "", "without a name"},
		{"it has the directory's name", map[string][]byte{"./": nil}, "./", "no name"},
		{"it is two files", map[string][]byte{"a": nil, "./a": nil}, "a", "twice"},
		{"all files count", map[string][]byte{"a": []byte("1"), "b": large}, "b", "268435456"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			_, err := archive.FromFiles(c.files)
			refused(t, err, c.path, c.says)
		})
	}
}
