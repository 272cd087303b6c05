package program

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// refused opens a file and expects it to be refused.
func refused(t *testing.T, path, want string) {
	t.Helper()
	p, err := Open(filepath.Dir(path), filepath.Base(path))
	if err == nil {
		_ = p.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("expected it to be refused with %q, but found: %v", want, err)
	}
}

func TestForeignOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	path := filepath.Join(t.TempDir(), "helm")
	write(t, path, script, 0o755)
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	refused(t, path, "belongs to the user 12345")
}

// A host that is not root runs its own files as well.
func TestOwnFilesWithoutRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("this is how all the others run already")
	}
	self, err := os.Open(ownPath(t)) // which others may find no way to
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.CommandContext(t.Context(), "/proc/self/fd/3", "-test.run=^TestOpen$")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestFileCapabilities(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "helm")
	write(t, path, script, 0o755)
	// VFS_CAP_REVISION_2 with the effective flag, and CAP_NET_BIND_SERVICE permitted.
	var value bytes.Buffer
	if err := binary.Write(&value, binary.LittleEndian, []uint32{0x02000001, 1 << unix.CAP_NET_BIND_SERVICE, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(path, "security.capability", value.Bytes(), 0); err != nil {
		t.Skipf("no file capabilities can be set here: %v", err)
	}
	refused(t, path, "has file capabilities")
}

func TestNoExecMount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOEXEC, "size=1m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		// A process that another test is starting may still hold what this one has open: the mount goes when that does.
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "helm")
	write(t, path, script, 0o755)
	refused(t, path, "mounted noexec, where nothing can be run; mount "+dir+" without that option")
}
