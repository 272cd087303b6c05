package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// Pack packs the regular files and directories in a directory of the root. It keeps names, contents and the right to
// execute, and nothing else: the same files make the same archive. It passes the archive to store in chunks of
// layout.ChunkBytes, one after the other, the last of them perhaps shorter; store may use a chunk during its call
// only. It returns the number of chunks: 0 for an empty or missing directory. It refuses other kinds of files, and
// too many or too large ones; maxBytes bounds the archive.
func Pack(
	root *os.Root, dir string, maxBytes int64, store func(number int, chunk []byte) error,
) (chunks int, err error) {
	// Pack it twice, to store nothing of a refused directory, and to have no more than a chunk in memory.
	size := &counter{}
	if found, err := pack(root, dir, size); err != nil || found == 0 {
		return 0, err
	}
	if size.written > maxBytes {
		return 0, refuse(dir, "has %d bytes when it is packed, but %d are allowed; keep less in it",
			size.written, maxBytes)
	}
	out := &chunker{left: maxBytes, chunk: make([]byte, 0, min(size.written, layout.ChunkBytes)), store: store}
	if _, err := pack(root, dir, out); err != nil {
		return 0, err
	}
	return out.number + 1, out.flush()
}

// pack writes the archive of a directory to its end, and returns the number of files and directories.
func pack(root *os.Root, dir string, to io.Writer) (found int, err error) {
	if _, err := root.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	p := &packing{root: root, dir: dir, writer: newWriter(to)}
	if err := p.directory("."); err != nil {
		return 0, err
	}
	if err := p.writer.close(); err != nil {
		return 0, fmt.Errorf("pack %q: %w", dir, err)
	}
	return p.found, nil
}

// packing is the state of packing one directory. Names are relative to the directory.
type packing struct {
	root   *os.Root
	dir    string
	writer *writer
	// found is the number of files and directories so far, and bytes the size of the files together.
	found int
	bytes int64
}

// directory packs the content of a directory, always in the same order.
func (p *packing) directory(name string) error {
	names, err := p.list(name)
	if err != nil {
		return err
	}
	for _, child := range names {
		if err := p.entry(path.Join(name, child)); err != nil {
			return err
		}
	}
	return nil
}

// list returns the names in a directory. It stops reading at too many.
func (p *packing) list(name string) ([]string, error) {
	at := path.Join(p.dir, name)
	f, _, err := open(p.root, at, fs.ModeDir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	names, err := f.Readdirnames(layout.MaxFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("list %q: %w", shorten(at), withoutPath(err))
	}
	if p.found += len(names); p.found > layout.MaxFiles {
		return nil, refuse(p.dir, "has more files and directories than the limit of %d; keep fewer in it",
			layout.MaxFiles)
	}
	slices.Sort(names)
	return names, nil
}

func (p *packing) entry(name string) error {
	at := path.Join(p.dir, name)
	if len(name) > maxNameBytes {
		return refuse(at, "has a name of %d bytes below %q; %d are allowed", len(name), p.dir, maxNameBytes)
	}
	info, err := p.root.Lstat(at)
	if err != nil {
		return fmt.Errorf("look at %q: %w", shorten(at), withoutPath(err))
	}
	if !info.IsDir() {
		return p.file(name)
	}
	if err := p.writer.directory(name); err != nil {
		return fmt.Errorf("pack %q: %w", shorten(at), err)
	}
	return p.directory(name)
}

func (p *packing) file(name string) error {
	at := path.Join(p.dir, name)
	f, info, err := open(p.root, at, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	// A file with holes may have any size.
	if info.Size() > layout.MaxUnpackedBytes-p.bytes {
		return refuse(p.dir, "has more bytes in its files than the limit of %d; keep less in it",
			layout.MaxUnpackedBytes)
	}
	p.bytes += info.Size()
	if err := p.writer.file(name, info.Mode()&0o111 != 0, info.Size(), f); err != nil {
		return fmt.Errorf("pack %q: %w", shorten(at), withoutPath(err))
	}
	return nil
}

// Open opens a regular file for reading, whatever the image has put there. It follows no symbolic links and does not
// wait. The name is relative to the root. The error is fs.ErrNotExist for a missing file.
func Open(root *os.Root, name string) (*os.File, error) {
	name = path.Clean(name)
	for i, c := range name {
		if c == '/' {
			if err := expectThere(root, name[:i], fs.ModeDir); err != nil {
				return nil, err
			}
		}
	}
	f, _, err := open(root, name, 0)
	return f, err
}

// open opens a file or directory of the wanted type. The image may replace it meanwhile by a pipe or by a link:
// O_NONBLOCK waits for no writer of a pipe, and the root lets no link lead out of it.
func open(root *os.Root, name string, want fs.FileMode) (*os.File, fs.FileInfo, error) {
	if err := expectThere(root, name, want); err != nil {
		return nil, nil, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open %q: %w", shorten(name), withoutPath(err))
	}
	info, err := expect(name, want, f.Stat)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

var typeNames = map[fs.FileMode]string{
	0: "a regular file", fs.ModeDir: "a directory", fs.ModeSymlink: "a symbolic link", fs.ModeNamedPipe: "a pipe",
	fs.ModeSocket: "a socket", fs.ModeDevice: "a device", fs.ModeDevice | fs.ModeCharDevice: "a device",
}

// expectThere refuses another type, without opening the file.
func expectThere(root *os.Root, name string, want fs.FileMode) error {
	_, err := expect(name, want, func() (fs.FileInfo, error) { return root.Lstat(name) })
	return err
}

// expect refuses another type.
func expect(name string, want fs.FileMode, stat func() (fs.FileInfo, error)) (fs.FileInfo, error) {
	info, err := stat()
	if err != nil {
		return nil, fmt.Errorf("look at %q: %w", shorten(name), withoutPath(err))
	}
	found := info.Mode().Type()
	if found == want {
		return info, nil
	}
	what, ok := typeNames[found]
	if !ok {
		what = "neither a file nor a directory"
	}
	return nil, refuse(name, "is %s, but only %s can be taken; replace or remove it", what, typeNames[want])
}

// FromFiles packs files in memory. Directories above them need no entries. It refuses names, numbers and sizes
// refused by Unpack.
func FromFiles(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w, known, left := newWriter(&out), entries{}, layout.MaxUnpackedBytes
	for _, name := range slices.Sorted(maps.Keys(files)) {
		cleaned, err := clean(name)
		if err != nil {
			return nil, err
		}
		if cleaned == "." {
			return nil, refuse(name, "is no name of a file")
		}
		if err := known.add(cleaned, file); err != nil {
			return nil, err
		}
		if left -= len(files[name]); left < 0 {
			return nil, refuse(name, "is too large: all files together may have %d bytes", layout.MaxUnpackedBytes)
		}
		if err := w.file(cleaned, false, int64(len(files[name])), bytes.NewReader(files[name])); err != nil {
			return nil, fmt.Errorf("pack %q: %w", shorten(name), err)
		}
	}
	if err := w.close(); err != nil {
		return nil, fmt.Errorf("pack files: %w", err)
	}
	return out.Bytes(), nil
}

// writer writes an archive without times, owners and the like: the same files make the same archive.
type writer struct {
	zip *gzip.Writer
	tar *tar.Writer
}

func newWriter(to io.Writer) *writer {
	zip := gzip.NewWriter(to)
	return &writer{zip: zip, tar: tar.NewWriter(zip)}
}

func (w *writer) directory(name string) error {
	return w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: directoryMode})
}

// errChanged is the error about a file written to during the packing.
var errChanged = errors.New("it has changed while it was read; let nothing write there when the main process has ended")

// file writes a file. The error is errChanged for a content of another size.
func (w *writer) file(name string, executable bool, size int64, content io.Reader) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(fileMode(executable)), Size: size}
	if err := w.tar.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.Copy(w.tar, content)
	if errors.Is(err, tar.ErrWriteTooLong) || err == nil && n < size {
		return errChanged
	}
	return err
}

func (w *writer) close() error { return errors.Join(w.tar.Close(), w.zip.Close()) }

// counter counts the written bytes.
type counter struct{ written int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.written += int64(len(p))
	return len(p), nil
}

// chunker stores the written bytes in chunks. flush stores the last one.
type chunker struct {
	// left is the number of bytes still allowed.
	left   int64
	chunk  []byte
	number int
	store  func(number int, chunk []byte) error
}

// Write implements io.Writer. The error is errChanged for more bytes than allowed.
func (c *chunker) Write(p []byte) (int, error) {
	if c.left -= int64(len(p)); c.left < 0 {
		return 0, errChanged
	}
	written := len(p)
	for len(p) > 0 {
		if len(c.chunk) == layout.ChunkBytes {
			if err := c.flush(); err != nil {
				return 0, err
			}
			c.chunk, c.number = c.chunk[:0], c.number+1
		}
		n := min(len(p), layout.ChunkBytes-len(c.chunk))
		c.chunk, p = append(c.chunk, p[:n]...), p[n:]
	}
	return written, nil
}

func (c *chunker) flush() error { return c.store(c.number, c.chunk) }
