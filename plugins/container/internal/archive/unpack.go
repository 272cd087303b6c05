package archive

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// maxStreamBytes bounds what an archive decompresses to: its files, and what surrounds them. An entry with a name of the greatest length has
// 3 KiB around it.
const maxStreamBytes = layout.MaxUnpackedBytes + layout.MaxFiles*4<<10

// Unpack unpacks an archive into a directory, which is relative to the root and there. It stops at the end of the archive, whatever comes
// behind it. Files that are there are replaced, and nothing is written through a link. All may read what is made, and execute what somebody
// may, as far as the umask allows. After an error, some of the archive may be unpacked.
// The error is an *Error if the archive is refused, which is Damaged also if it cannot be read.
func Unpack(r io.Reader, root *os.Root, dir string) error {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return broken(err)
	}
	zip.Multistream(false)
	stream := &meter{from: zip, left: maxStreamBytes}
	u := &unpacking{tar: tar.NewReader(stream), root: root, dir: dir, known: tree{}, left: layout.MaxUnpackedBytes}
	for {
		header, err := u.tar.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return broken(err)
		}
		if err := u.entry(header); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, stream); err != nil { // which checks the sum
		return broken(err)
	}
	return nil
}

// broken makes a refusal of an error of the decoders, which quote nothing. If it is a refusal already, that it stays.
func broken(err error) error {
	if refusal, ok := errors.AsType[*Error](err); ok {
		return refusal
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse(Damaged, "", "ends too early")
	}
	return refuse(Damaged, "", "cannot be read: %v", err)
}

// meter ends with a refusal when too much was read.
type meter struct {
	from io.Reader
	left int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	if m.left -= int64(n); m.left < 0 {
		return 0, refuse(TooLarge, "", "unpacks to more than the %d bytes that are allowed", layout.MaxUnpackedBytes)
	}
	return n, err
}

// unpacking is the state of unpacking one archive.
type unpacking struct {
	tar   *tar.Reader
	root  *os.Root
	dir   string
	known tree
	left  int64
}

func (u *unpacking) path(name string) string { return path.Join(u.dir, name) }

func (u *unpacking) entry(header *tar.Header) error {
	name, err := clean(header.Name)
	if err != nil {
		return err
	}
	switch {
	case header.Typeflag == tar.TypeDir:
		if err := u.enter(name, directory); err != nil || name == "." {
			return err
		}
		return u.mkdir(name)
	case header.Typeflag == tar.TypeReg && !sparse(header):
		if name == "." {
			return refuse(Name, header.Name, "is no name of a file")
		}
		if err := u.enter(name, file); err != nil {
			return err
		}
		return u.file(name, header)
	default:
		return wrongEntry(header)
	}
}

// sparse tells of a file of which the archive holds parts only. A few bytes can stand for any size.
func sparse(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// enter makes the directories above an entry, which may have no entries or later ones.
func (u *unpacking) enter(name string, n node) error {
	above, err := u.known.add(name, n)
	if err != nil {
		return err
	}
	for _, dir := range above {
		if err := u.mkdir(dir); err != nil {
			return err
		}
	}
	return nil
}

// mkdir makes a directory. One that is there stays as it is.
func (u *unpacking) mkdir(name string) error {
	err := u.root.Mkdir(u.path(name), directoryMode)
	if errors.Is(err, fs.ErrExist) {
		if info, err := u.root.Lstat(u.path(name)); err == nil && info.IsDir() {
			return nil
		}
		return refuse(Taken, name, "is a directory in the archive, but something else is there")
	}
	if err != nil {
		return fmt.Errorf("make directory %q: %w", shorten(name), withoutPath(err))
	}
	return nil
}

func (u *unpacking) file(name string, header *tar.Header) error {
	if u.left -= header.Size; u.left < 0 {
		return refuse(TooLarge, name, "is too large: the archive unpacks to more than the %d bytes that are allowed", layout.MaxUnpackedBytes)
	}
	if info, err := u.root.Lstat(u.path(name)); err == nil && info.IsDir() {
		return refuse(Taken, name, "is a file in the archive, but a directory is there")
	}
	// What is there is removed and not written to, since it may be a link.
	if err := u.root.Remove(u.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace file %q: %w", shorten(name), withoutPath(err))
	}
	f, err := u.root.OpenFile(u.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode(header.Mode&0o111 != 0))
	if err != nil {
		return fmt.Errorf("make file %q: %w", shorten(name), withoutPath(err))
	}
	source := &source{from: u.tar}
	_, err = io.Copy(f, source)
	err = errors.Join(err, f.Close())
	if source.err != nil {
		return broken(source.err)
	}
	if err != nil {
		return fmt.Errorf("write file %q: %w", shorten(name), withoutPath(err))
	}
	return nil
}

// source remembers that reading has failed, to tell it from writing.
type source struct {
	from io.Reader
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
