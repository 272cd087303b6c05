package plugin

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

// discover lists the files of the plugin directory in order of names. Hidden files are passed over, because mounted
// volumes are full of them; everything else is meant to be a plugin.
func discover(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read plugin directory: %w", err)
	}
	var files []string
	for _, entry := range entries {
		name := entry.Name()
		if plugindir.CheckName(name) == nil {
			files = append(files, name)
		}
	}
	return files, nil
}

// program is a plugin's file in the plugin directory. It is opened once, hashed, and held open: each start executes
// what was hashed, and not what somebody has put in its place since. It belongs to the plugin's supervisor.
type program struct {
	dir, name string

	file *os.File // nil before the first start
	sum  string   // its SHA-256, in hexadecimal digits
}

// path is for people, and the first argument of the process. It may lead to another file by now.
func (p *program) path() string { return filepath.Join(p.dir, p.name) }

// open opens the file the first time, and checks afterwards that it has not been changed in place.
func (p *program) open() error {
	file := p.file
	if file == nil {
		var err error
		if file, err = openProgram(p.dir, p.name); err != nil {
			return err
		}
	}
	sum, err := sumOf(file)
	switch {
	case p.file == nil && err != nil:
		return errors.Join(err, file.Close())
	case err != nil:
		return err
	case p.file != nil && sum != p.sum:
		return errors.New("was changed since it was loaded; restart the host to use it as it is now")
	}
	p.file, p.sum = file, sum
	return nil
}

func (p *program) close() {
	if p.file != nil {
		_ = p.file.Close() // it was only read
	}
}

// openProgram opens a file of the plugin directory that may be run. Links are followed as long as they stay in the
// directory. It never waits, whatever lies behind the name.
func openProgram(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	// Nonblocking: a named pipe would wait for somebody who writes.
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

const (
	setID       = 0o6000
	othersWrite = 0o022
	execute     = 0o111
)

// checkFile says why a file must not be run by the user self. The path is for what it says to do.
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

// sumOf reads the whole file and returns its SHA-256, which takes less than a second for each gigabyte.
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

// sdkModule is what has the sdk.
const sdkModule = "github.com/pergola-deploy/pergola"

// sdkVersion returns the version of the sdk that a program was built with, from what Go writes into programs: empty if
// that is not to be found, such as for a script, and "(devel)" if it was built from a working copy.
func sdkVersion(file io.ReaderAt) string {
	info, err := buildinfo.Read(file)
	if err != nil {
		return ""
	}
	for _, module := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if module.Path == sdkModule {
			return module.Version
		}
	}
	return ""
}
