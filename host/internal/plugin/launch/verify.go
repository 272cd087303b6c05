package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

const (
	setID       = 0o6000
	othersWrite = 0o022
	execute     = 0o111
)

// checkFile returns the reason why the user self must not run a file. The path is for its advice.
func checkFile(file *os.File, path string, self int) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("cannot be examined: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("cannot be examined: the system does not say whose it is")
	}
	switch mode := uint32(stat.Mode) & 0o7777; { //nolint:unconvert // its type depends on the system
	case !info.Mode().IsRegular():
		return errors.New("is no regular file; plugins lie directly in the plugin directory")
	case mode&setID != 0:
		return fmt.Errorf("is set-uid or set-gid (mode %04o), but no plugin may have other rights than the host; chmod "+
			"0755 %s", mode, path)
	case mode&othersWrite != 0:
		return fmt.Errorf("may be written by its group or by others (mode %04o), who could put anything there; chmod 0755 %s",
			mode, path)
	case stat.Uid != 0 && int(stat.Uid) != self:
		return fmt.Errorf("belongs to the user %d, who could put anything there; chown it to root, or to the user %d "+
			"that the host runs as: chown 0 %s",
			stat.Uid, self, path)
	case mode&execute == 0:
		return fmt.Errorf("is not executable (mode %04o); chmod 0755 %s if it is a plugin, else move it away", mode, path)
	default:
		return nil
	}
}

// sumOf returns the SHA-256 of a file; a gigabyte takes less than a second.
func sumOf(file *os.File) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(file, 0, info.Size())); err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// openProgram opens a verified file of a directory. It follows links within the directory, and never blocks.
func openProgram(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	// Nonblocking: the open of a named pipe would wait for a writer.
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if target, noLink := root.Readlink(name); noLink == nil {
			err = fmt.Errorf("it is a link to %s, which must be there, and a relative path within the plugin directory: %w",
				target, err)
		}
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if err := checkFile(file, filepath.Join(dir, name), os.Geteuid()); err != nil {
		_ = file.Close() // it was only read
		return nil, err
	}
	return file, nil
}
