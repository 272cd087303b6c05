package worker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

// confine takes from this process what the host takes from a plugin that it confines: all files but the system's, its
// own program and its own directory, and of /proc what is not its own. The program has no file any more then.
func confine(own string) error {
	if err := os.Remove(os.Args[0]); err != nil {
		return err
	}
	config := landlock.V11.BestEffort()
	config.HandledAccessNet = 0
	return config.Restrict(
		landlock.RODirs("/usr", "/bin", "/lib", "/lib64", "/proc/self", "/sys/fs/cgroup",
			"/sys/kernel/mm/transparent_hugepage").IgnoreIfMissing(),
		landlock.ROFiles("/etc/resolv.conf", "/etc/hosts", "/etc/localtime", "/etc/passwd",
			"/proc/self/exe").IgnoreIfMissing(),
		landlock.RWFiles("/dev/null", "/dev/urandom").IgnoreIfMissing(),
		landlock.RWDirs(own),
	)
}

// The parent of a worker may be confined, and have lost its file. The worker does its work all the same, with limits,
// and can no more than its parent.
func TestConfinedParent(t *testing.T) {
	t.Parallel()
	if err := supportsLandlock(); err != nil {
		t.Skipf("the kernel has no Landlock: %s", err)
	}
	for scenario, want := range map[string]string{
		"installs": "done: 2", "grows at once": "memory limit of 256Mi", "recurses": "memory limit of 256Mi",
		"spies": "done: 0, kept: 2 refused",
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			program := copyProgram(t)
			own, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(secret, []byte("s"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program)
			cmd.Env = append(os.Environ(), parentEnv+"="+scenario, "CONFINE="+own, "TMPDIR="+own, "SPY="+secret)
			out, err := cmd.CombinedOutput()
			if !strings.Contains(string(out), want) {
				t.Errorf("expected %q, but found %s (%v)", want, out, err)
			}
			if left, err := os.ReadDir(own); err != nil || len(left) > 0 {
				t.Errorf("found %v (%v)", left, err)
			}
		})
	}
}

// supportsLandlock asks the kernel.
func supportsLandlock() error {
	_, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return errno
	}
	return nil
}

func init() { confineParent = confine }
