package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// Pack packs what is in a directory, which is relative to the root: regular files and directories. Names, contents and the right to execute
// are kept, and nothing else, so that the same files make the same archive. The archive is nil if there is nothing in the directory, or no
// such directory. The error is an *Error if there is something that is not taken, or more of it than is allowed; maxBytes bounds the archive.
func Pack(root *os.Root, dir string, maxBytes int64) ([]byte, error) {
	p := &packing{root: root, dir: path.Clean(dir)}
	if err := p.collect(); err != nil || len(p.found) == 0 {
		return nil, err
	}
	return p.write(maxBytes)
}

// FromFiles packs files that are in memory. Directories above them need no entries. The error is an *Error if Unpack would not take the archive.
func FromFiles(files map[string][]byte) ([]byte, error) {
	names := slices.Sorted(maps.Keys(files))
	if err := check(names, files); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := newWriter(&out)
	for _, name := range names {
		if err := w.file(path.Clean(name), false, int64(len(files[name])), bytes.NewReader(files[name])); err != nil {
			return nil, fmt.Errorf("pack %q: %w", shorten(name), err)
		}
	}
	if err := w.close(); err != nil {
		return nil, fmt.Errorf("pack files: %w", err)
	}
	return out.Bytes(), nil
}

// check checks files as Unpack will.
func check(names []string, files map[string][]byte) error {
	known, left := tree{}, layout.MaxUnpackedBytes
	for _, name := range names {
		cleaned, err := clean(name)
		if err != nil {
			return err
		}
		if cleaned == "." {
			return refuse(Name, name, "is no name of a file")
		}
		if _, err := known.add(cleaned, file); err != nil {
			return err
		}
		if left -= len(files[name]); left < 0 {
			return refuse(TooLarge, name, "is too large: all files together may have %d bytes", layout.MaxUnpackedBytes)
		}
	}
	return nil
}

// packing is the state of packing one directory. First all of it is looked at, so that nothing is read if it is too much.
type packing struct {
	root  *os.Root
	dir   string
	found []found
	// listed counts names, those of entries that are still to be looked at included.
	listed int
	bytes  int64
}

// found is a file or a directory; its name is relative to the one that is packed.
type found struct {
	name string
	info fs.FileInfo
}

func (p *packing) path(name string) string { return path.Join(p.dir, name) }

// collect finds everything, in an order that is always the same.
func (p *packing) collect() error {
	info, err := look(p.root, p.dir, fs.ModeDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := p.enter(found{".", info}); err != nil {
		return err
	}
	if p.bytes > layout.MaxUnpackedBytes {
		return refuse(TooLarge, p.dir, "has files of %d bytes together, but %d are allowed; keep less in it", p.bytes, layout.MaxUnpackedBytes)
	}
	return nil
}

func (p *packing) enter(dir found) error {
	names, err := p.list(dir)
	if err != nil {
		return err
	}
	for _, child := range names {
		name := path.Join(dir.name, child)
		if len(name) > maxNameBytes {
			return refuse(Name, p.path(name), "has a name of %d bytes below %q; %d are allowed", len(name), p.dir, maxNameBytes)
		}
		info, err := p.root.Lstat(p.path(name))
		if err != nil {
			return fmt.Errorf("look at %q: %w", shorten(p.path(name)), withoutPath(err))
		}
		entry := found{name, info}
		p.found = append(p.found, entry)
		switch {
		case info.IsDir():
			if err := p.enter(entry); err != nil {
				return err
			}
		case info.Mode().IsRegular():
			p.bytes = min(p.bytes, math.MaxInt64-info.Size()) + info.Size()
		default:
			return wrongType(p.path(name), info.Mode(), "regular files and directories")
		}
	}
	return nil
}

// list returns the sorted names in a directory. It does not read on when there are too many.
func (p *packing) list(dir found) (names []string, err error) {
	name := p.path(dir.name)
	f, err := open(p.root, name, dir.info)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	for {
		some, err := f.Readdirnames(1000)
		names = append(names, some...)
		p.listed += len(some)
		switch {
		case p.listed > layout.MaxFiles:
			return nil, refuse(TooMany, p.dir, "has more than %d files and directories, which are allowed; keep fewer in it", layout.MaxFiles)
		case errors.Is(err, io.EOF):
			slices.Sort(names)
			return names, nil
		case err != nil:
			return nil, fmt.Errorf("list %q: %w", shorten(name), withoutPath(err))
		}
	}
}

// write makes the archive of what was found. It is made to its end even if it gets too large, to tell how large.
func (p *packing) write(maxBytes int64) ([]byte, error) {
	out := &bounded{max: maxBytes}
	w := newWriter(out)
	for _, f := range p.found {
		if f.info.IsDir() {
			if err := w.directory(f.name); err != nil {
				return nil, fmt.Errorf("pack %q: %w", shorten(p.path(f.name)), err)
			}
		} else if err := p.writeFile(w, f); err != nil {
			return nil, err
		}
	}
	if err := w.close(); err != nil {
		return nil, fmt.Errorf("pack %q: %w", p.dir, err)
	}
	if out.written > maxBytes {
		return nil, refuse(TooLarge, p.dir, "has %d bytes when it is packed, but %d are allowed; keep less in it", out.written, maxBytes)
	}
	return out.kept.Bytes(), nil
}

func (p *packing) writeFile(w *writer, f found) error {
	opened, err := open(p.root, p.path(f.name), f.info)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }() // it was only read
	return copyFile(w, f, opened, p.path(f.name))
}

// copyFile packs as much as was found, and refuses a file that has less by now, or more.
func copyFile(w *writer, f found, opened *os.File, path string) error {
	err := w.file(f.name, f.info.Mode()&0o111 != 0, f.info.Size(), opened)
	if errors.Is(err, io.EOF) {
		return changed(path)
	}
	if err != nil {
		return fmt.Errorf("pack %q: %w", shorten(path), withoutPath(err))
	}
	if n, _ := opened.Read(make([]byte, 1)); n > 0 {
		return changed(path)
	}
	return nil
}

// bounded keeps what is written up to a size, and counts on.
type bounded struct {
	max, written int64
	kept         bytes.Buffer
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.written += int64(len(p)); b.written <= b.max {
		b.kept.Write(p)
	}
	return len(p), nil
}
