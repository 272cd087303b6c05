package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

const (
	fileRead  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	fileWrite = fileRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX

	dirRead = fileRead | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// dirWrite leaves out devices: a program of root's could make itself one for the disk.
	dirWrite = dirRead | fileWrite | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO
)

// Supported asks the kernel for its means; the answer is constant.
var Supported = sync.OnceValue(func() Support {
	abi, errno := askLandlock(unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch errno {
	case 0:
		if abi >= abiScopes && !scopesWork() {
			abi = abiScopes - 1
		}
		return Support{ABI: abi}
	case unix.ENOSYS:
		return Support{Reason: "the kernel was built without Landlock, or is older than it (Linux 5.13)"}
	case unix.EOPNOTSUPP:
		return Support{Reason: "Landlock was not enabled when the kernel started (lsm= on its command line)"}
	default:
		return Support{Reason: fmt.Sprintf("Landlock cannot be used here, such as because of a seccomp profile (%s)", errno)}
	}
})

// scopesWork reports whether the kernel lets threads of one process send signals to each other. The first kernels with
// scopes did not, and go-landlock does without scopes there.
func scopesWork() bool {
	const signalsBetweenThreads = 1 << 1
	fixed, errno := askLandlock(unix.LANDLOCK_CREATE_RULESET_ERRATA)
	return errno == 0 && fixed&signalsBetweenThreads != 0
}

func askLandlock(question uintptr) (answer int, errno unix.Errno) {
	found, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, question)
	return int(found), errno
}

// confine takes rights from this process, for good.
func (o order) confine() error {
	if !o.Confine {
		return nil
	}
	config := landlock.V11.BestEffort()
	config.HandledAccessNet = 0
	rules, err := o.rules(Supported().ABI)
	if err != nil {
		return err
	}
	return config.Restrict(rules...)
}

func (o order) rules(abi int) ([]landlock.Rule, error) {
	// Asking for this right where the kernel does not know it makes go-landlock do nothing at all.
	write := landlock.AccessFSSet(dirWrite)
	if abi >= abiRename {
		write |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	var rules []landlock.Rule
	for _, group := range []struct {
		paths     []string
		file, dir landlock.AccessFSSet
	}{
		{slices.Concat(baseRead, o.variablePaths(), o.Read, []string{descriptorPath(o.Program)}), fileRead, dirRead},
		{baseWrite, fileWrite, 0},
		{o.Write, fileWrite, write},
	} {
		for _, path := range group.paths {
			// A file must not be given the rights that only make sense for a directory.
			info, err := os.Stat(path)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // nor will the program find it
				continue
			case err != nil:
				return nil, err
			}
			access := group.file
			if info.IsDir() {
				access = group.dir
			}
			rules = append(rules, landlock.PathAccess(access, path).IgnoreIfMissing())
		}
	}
	return rules, nil
}

// variablePaths returns the paths in baseVariables.
func (o order) variablePaths() []string {
	var paths []string
	for _, name := range baseVariables {
		paths = append(paths, filepath.SplitList(os.Getenv(name))...)
	}
	return paths
}
