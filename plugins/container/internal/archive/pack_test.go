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

// The image may remove the directory, also with the one above it.
func TestNothingToPack(t *testing.T) {
	t.Parallel()
	root, _ := newRoot(t)
	for _, dir := range []string{"state", "elsewhere", "else/where"} {
		if packed, err := archiveOf(root, dir, 0); packed != nil || err != nil {
			t.Errorf("%s: expected neither an archive nor an error, but found %d bytes and %v", dir, len(packed), err)
		}
	}
}

func TestPackRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make       func(t *testing.T, dir string) error
		path, says string
	}{
		// The token of another container could be there.
		"link out": {
			func(_ *testing.T, dir string) error { return os.Symlink("/etc/passwd", dir+"/state/a") },
			"state/a", "symbolic link",
		},
		"the directory is a link": {func(t *testing.T, dir string) error {
			content{"other/b": "1"}.write(t, dir)
			return errors.Join(os.Remove(dir+"/state"), os.Symlink("other", dir+"/state"))
		}, "state", "a directory"},
		"the directory is a file": {func(_ *testing.T, dir string) error {
			return errors.Join(os.Remove(dir+"/state"), os.WriteFile(dir+"/state", nil, 0o600))
		}, "state", "is a regular file, but only a directory"},
		// A read would never end.
		"pipe": {
			func(_ *testing.T, dir string) error { return syscall.Mkfifo(dir+"/state/a", 0o600) }, "state/a", "a pipe",
		},
		"socket": {func(t *testing.T, dir string) error {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", dir+"/state/a")
			t.Cleanup(func() { _ = l.Close() })
			return err
		}, "state/a", "a socket"},
		"device": {func(t *testing.T, dir string) error {
			const zero = 1<<8 | 5
			if err := syscall.Mknod(dir+"/state/a", syscall.S_IFCHR|0o600, zero); err != nil {
				t.Skipf("devices cannot be made here: %v", err)
			}
			return nil
		}, "state/a", "a device"},
		// It has no room on the disk, but would have it in memory.
		"sparse": {func(t *testing.T, dir string) error {
			content{"a": "1", "b": ""}.write(t, dir+"/state")
			return os.Truncate(dir+"/state/b", layout.MaxUnpackedBytes)
		}, "state", "has more bytes in its files than the limit of 268435456; keep less"},
		"long name": {func(_ *testing.T, dir string) error {
			root, err := os.OpenRoot(dir)
			if err != nil {
				return err
			}
			return errors.Join(root.MkdirAll("state/"+longName, 0o755), root.Close())
		}, "state/" + longName, "1025 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, dir := newRoot(t)
			must(t, c.make(t, dir))
			packed, err := archiveOf(root, "state", generous)
			if packed != nil {
				t.Error("it was packed")
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
	for _, c := range []struct{ name, path, says string }{
		{"exports/link", "exports/link", "a symbolic link, but only a regular file"},
		{"linked/values", "linked", "a symbolic link, but only a directory"},
		{"exports/pipe", "exports/pipe", "a pipe"},
		{"exports", "exports", "a directory"},
		{"exports/values/a", "exports/values", "a regular file"},
	} {
		_, err := archive.Open(root, c.name)
		refused(t, err, c.path, c.says)
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
		files      map[string][]byte
		path, says string
	}{
		{map[string][]byte{"/a": nil}, "/a", "absolute"},
		{map[string][]byte{"": nil}, "", "without a name"},
		{map[string][]byte{"./": nil}, "./", "no name"},
		{map[string][]byte{"a": nil, "./a": nil}, "a", "twice"},
		{map[string][]byte{"a": []byte("1"), "b": large}, "b", "268435456"},
	} {
		_, err := archive.FromFiles(c.files)
		refused(t, err, c.path, c.says)
	}
}
