// Package plugindir installs programs in the plugin directories of hosts. The sdk installs the plugin itself, and
// pergola the plugins of its image.
package plugindir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// mode is executable for all users and writable for none: the host runs no file with other writers.
const mode = 0o555

// leftoverAge is the time since the last write to an abandoned copy.
const leftoverAge = 10 * time.Minute

// CheckName returns why a host ignores files of this name; nil if it does not.
func CheckName(name string) error {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("expected the bare name of a file that is not hidden, "+
			"as hosts pass over those, but found %q", name)
	}
	return nil
}

// Install copies a program into a plugin directory, as a file of this name, possibly in the place of another file, and
// returns its path. The directory holds the old file or the new file at any time, also after a crash, and at most a
// hidden file beside it; hosts ignore hidden files. The error names a remedy.
func Install(program, dir, name string) (path string, err error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("expected a directory, but found nothing at %s; create it, or mount a volume there", dir)
	case err != nil:
		return "", fmt.Errorf("look at the directory: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("expected a directory, but %s is a file; "+
			"name the directory for the file", dir)
	}
	path = filepath.Join(dir, name)
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return "", fmt.Errorf("expected a file or nothing at %s, but found a directory; "+
			"remove it, or choose another name", path)
	}
	prefix := "." + name + "."
	if err := removeLeftovers(dir, prefix, time.Now().Add(-leftoverAge)); err != nil {
		return "", err
	}
	copied, err := copyOf(program, dir, prefix)
	if err != nil {
		return "", err
	}
	if err := os.Rename(copied, path); err != nil {
		return "", errors.Join(fmt.Errorf("put the copy into its place: %w", err), os.Remove(copied))
	}
	return path, nil
}

// removeLeftovers removes the copies of interrupted installations: those with the prefix and without a recent write.
func removeLeftovers(dir, prefix string, since time.Time) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for leftovers of earlier installations: %w", err)
	}
	for _, e := range entries {
		number, found := strings.CutPrefix(e.Name(), prefix)
		if !found || strings.Trim(number, "0123456789") != "" {
			continue
		}
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && info.ModTime().Before(since) {
			err = os.Remove(filepath.Join(dir, e.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a leftover of an earlier installation: %w", err)
		}
	}
	return nil
}

// copyOf copies a program to a new file in a directory, and returns its path. Nothing is left of a copy that fails.
func copyOf(program, dir, prefix string) (path string, err error) {
	source, err := os.Open(program)
	if err != nil {
		return "", fmt.Errorf("open the program: %w", err)
	}
	defer func() { _ = source.Close() }() // it was only read
	if info, err := source.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, fmt.Errorf("expected a file, but %s is none", program))
	}
	file, err := os.CreateTemp(dir, prefix)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("create a file: %w; user %d of this process must be able to write the directory",
			err, os.Geteuid())
	case errors.Is(err, syscall.ENAMETOOLONG):
		return "", fmt.Errorf("create a file: %w; choose a shorter name", err)
	case err != nil:
		return "", fmt.Errorf("create a file: %w", err)
	}
	_, err = io.Copy(file, source)
	if err == nil {
		err = file.Chmod(mode) // of a new file the umask has its say as well
	}
	if err == nil {
		err = file.Sync() // or else a crash of the machine may leave an empty file of the right name
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("copy the program to %s: %w", dir, err), os.Remove(file.Name()))
	}
	return file.Name(), nil
}
