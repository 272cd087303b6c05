package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

// discover lists the files of the plugin directory that are meant to be plugins, in order of names: those that are
// configured, and all others that are executable and not hidden. passed are the others that are not hidden: a directory
// may also hold a README, a backup copy or lost+found.
func discover(dir string, configured func(name string) bool) (files, passed []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read plugin directory: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if plugindir.CheckName(name) != nil {
			continue // mounted volumes are full of them
		}
		info, err := os.Stat(filepath.Join(dir, name))
		isNone := err == nil && (info.IsDir() || info.Mode().IsRegular() && info.Mode().Perm()&0o111 == 0)
		if isNone && !configured(name) {
			passed = append(passed, name)
			continue
		}
		files = append(files, name) // what cannot be read is refused, with the reason
	}
	return files, passed, nil
}

// program is a plugin's file in the plugin directory. It is opened once, hashed, and held open: each start executes
// what was hashed, and not what somebody has put in its place since. It belongs to the plugin's supervisor.
type program struct {
	dir, name string // dir is the plugin directory, or one in the cache

	file *os.File // nil before the first start
	sum  string   // its SHA-256, in hexadecimal digits; empty before it is known
}

// path is for people, and the first argument of the process. It may lead to another file by now.
func (p *program) path() string { return filepath.Join(p.dir, p.name) }

// open opens the file the first time, and returns its checksum. It fails if the file was changed in place since.
func (p *program) open() (sum string, err error) {
	if p.file == nil {
		if p.file, err = openProgram(p.dir, p.name); err != nil {
			return "", err
		}
	}
	if sum, err = sumOf(p.file); err != nil {
		return "", err
	}
	if p.sum != "" && sum != p.sum {
		return "", fmt.Errorf("was changed since it was loaded; remove %s if it is in the cache of plugins, and restart the "+
			"host to use it as it is now", p.path())
	}
	p.sum = sum
	return sum, nil
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
