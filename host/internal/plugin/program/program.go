package program

import (
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Program is a file of the plugin directory that may be run.
type Program struct {
	// Name of the file in the plugin directory.
	Name string
	// Path of the file, for people and as the first argument of the program. It may lead to another file by now.
	Path string
	// File is open for reading. It is what was checked, and what is to be executed: by its descriptor, not by Path.
	File *os.File
}

// Open opens a file of the plugin directory. It fails if the file must not be run, such as one that others may write, or cannot be
// run here. It never waits, whatever lies behind the name. The error says what was found and what to do about it; the name of the file
// is for the caller to put in front. The caller closes the program.
func Open(dir, name string) (*Program, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	file, err := open(dir, name)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	found, err := examine(file)
	if err != nil {
		err = fmt.Errorf("cannot be examined: %w", err)
	} else if err = found.refusal(path, os.Geteuid()); err == nil {
		err = checkFormat(file)
	}
	if err != nil {
		_ = file.Close() // it was only read
		return nil, err
	}
	return &Program{Name: name, Path: path, File: file}, nil
}

// open opens a file for reading. Links are followed as long as they stay in the directory.
func open(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // it was only read
	// Nonblocking: a named pipe would wait for somebody who writes.
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, explain(root, name, err)
	}
	return file, nil
}

// explain adds to an error where a link leads.
func explain(root *os.Root, name string, err error) error {
	target, noLink := root.Readlink(name)
	if noLink != nil {
		return err
	}
	var errno syscall.Errno
	switch {
	case !errors.As(err, &errno): // it was not the system that objected
		return fmt.Errorf("it is a link to %s, which leads out of the plugin directory, or is absolute; "+
			"put the file itself there, or a relative link within the directory: %w", target, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("it is a link to %s, which is not there: %w", target, err)
	default:
		return fmt.Errorf("it is a link to %s: %w", target, err)
	}
}

// CheckName says why a text is not the name of a file that can be a plugin: a bare one, not hidden, at most 255 bytes of UTF-8.
func CheckName(name string) error {
	const longest = 255 // of Linux' file systems
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\x00") || len(name) > longest || !utf8.ValidString(name) {
		return fmt.Errorf("expected the bare name of a file that is not hidden, of 1 to %d bytes, but found %.*q", longest, longest, name)
	}
	return nil
}

// maxBytes bounds what is hashed: far above any program, and below what a sparse file can pretend to hold.
const maxBytes = 4 << 30

// Sum reads the whole file and returns its SHA-256, which takes less than a second for each gigabyte on a CPU with
// instructions for it, and a few without. Nothing is remembered: a sum is of what the file held just now.
func (p *Program) Sum() ([sha256.Size]byte, error) {
	return sum(p.File, maxBytes)
}

func sum(file io.ReaderAt, limit int64) (digest [sha256.Size]byte, err error) {
	hash := sha256.New()
	n, err := io.Copy(hash, io.NewSectionReader(file, 0, limit+1))
	if err != nil {
		return digest, fmt.Errorf("cannot be read: %w", err)
	}
	if n > limit {
		return digest, fmt.Errorf("is larger than %d bytes, as no plugin is", limit)
	}
	hash.Sum(digest[:0])
	return digest, nil
}

// module is what has the sdk.
const module = "github.com/pergola-deploy/pergola"

// SDKVersion returns the version of the sdk that the program was built with, from what Go writes into programs. It is empty if that is
// not to be found, such as for a script, and "(devel)" if it was built from a working copy.
func (p *Program) SDKVersion() string {
	info, err := buildinfo.Read(p.File)
	if err != nil {
		return ""
	}
	return sdkVersion(info)
}

func sdkVersion(info *debug.BuildInfo) string {
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return ""
}

// Close closes the file. A process that executes it is not concerned.
func (p *Program) Close() error {
	if err := p.File.Close(); err != nil {
		return fmt.Errorf("close program: %w", err)
	}
	return nil
}
