package program

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// examineFurther finds out what a status does not tell.
func examineFurther(file *os.File) (capabilities, noExec bool, err error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return false, false, err
	}
	var attributeErr, fsErr error
	var fileSystem unix.Statfs_t
	err = conn.Control(func(fd uintptr) {
		_, attributeErr = unix.Fgetxattr(int(fd), "security.capability", nil)
		fsErr = unix.Fstatfs(int(fd), &fileSystem)
	})
	switch {
	case err != nil:
		return false, false, err
	case fsErr != nil:
		return false, false, fmt.Errorf("ask for its file system: %w", fsErr)
	case attributeErr == nil:
		capabilities = true
	case !errors.Is(attributeErr, unix.ENODATA) && !errors.Is(attributeErr, unix.ENOTSUP):
		return false, false, fmt.Errorf("ask for its capabilities: %w", attributeErr)
	}
	return capabilities, fileSystem.Flags&unix.ST_NOEXEC != 0, nil
}
