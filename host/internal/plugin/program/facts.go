package program

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// facts are what the system knows about an open file.
type facts struct {
	regular bool
	mode    uint32 // permissions with the bits for set-uid, set-gid and sticky
	owner   int
	// capabilities: whoever executes the file gets rights by it, as by set-uid.
	capabilities bool
	// noExec: nothing on its file system can be executed.
	noExec bool
}

const (
	setID       = 0o6000
	othersWrite = 0o022
	execute     = 0o111
)

func examine(file *os.File) (facts, error) {
	info, err := file.Stat()
	if err != nil {
		return facts{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return facts{}, errors.New("the system does not say whose it is")
	}
	found := facts{regular: info.Mode().IsRegular(), mode: uint32(stat.Mode) & 0o7777, owner: int(stat.Uid)} //nolint:unconvert // its type depends on the system
	if !found.regular {
		return found, nil
	}
	found.capabilities, found.noExec, err = examineFurther(file)
	return found, err
}

// refusal says why a file must not be run by the user self. The path is for what it says to do.
func (f facts) refusal(path string, self int) error {
	switch {
	case !f.regular:
		return errors.New("is no regular file; plugins lie directly in the plugin directory")
	case f.mode&setID != 0:
		return fmt.Errorf("is set-uid or set-gid (mode %04o), but no plugin may have other rights than the host; chmod 0755 %s", f.mode, path)
	case f.capabilities:
		return fmt.Errorf("has file capabilities, but no plugin may have other rights than the host; setcap -r %s", path)
	case f.mode&othersWrite != 0:
		return fmt.Errorf("may be written by its group or by others (mode %04o), who could put anything there; chmod 0755 %s", f.mode, path)
	case f.owner != 0 && f.owner != self:
		return fmt.Errorf("belongs to the user %d, who could put anything there; chown it to root, or to the user %d that the host runs as: chown 0 %s",
			f.owner, self, path)
	case f.mode&execute == 0:
		return fmt.Errorf("is not executable (mode %04o); chmod 0755 %s if it is a plugin, else move it away", f.mode, path)
	case f.noExec:
		return fmt.Errorf("lies on a file system that is mounted noexec, where nothing can be run; mount %s without that option, "+
			"or have the plugin copied to where it can be run, by itself: install --to DIR", filepath.Dir(path))
	default:
		return nil
	}
}
