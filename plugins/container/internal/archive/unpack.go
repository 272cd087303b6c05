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
	"syscall"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// maxStreamBytes bounds the decompressed archive: its files, and the headers around them. An entry with a name of the
// greatest length has 3 KiB around it.
const maxStreamBytes = layout.MaxUnpackedBytes + layout.MaxFiles*4<<10

// Unpack unpacks an archive into an existing directory of the root. It stops at the end of the archive, whatever
// follows. It replaces existing files, and writes nothing through a link. As far as the umask allows, all users may
// read the result, and execute the executable files. After an error, some of the archive may be unpacked.
func Unpack(r io.Reader, root *os.Root, dir string) error {
	u := &unpacking{root: root, dir: dir, known: entries{}, left: layout.MaxUnpackedBytes}
	return read(r, u.entry)
}

// Files returns the files of an archive of FromFiles, by their paths.
func Files(r io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := read(r, func(header *tar.Header, content io.Reader) (err error) {
		files[header.Name], err = io.ReadAll(content)
		return err
	})
	return files, err
}

// read reads an archive to its end.
func read(r io.Reader, entry func(header *tar.Header, content io.Reader) error) error {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return broken(err)
	}
	zip.Multistream(false)
	stream := &io.LimitedReader{R: zip, N: maxStreamBytes + 1}
	reader := tar.NewReader(stream)
	for err == nil {
		var header *tar.Header
		if header, err = reader.Next(); err == nil {
			err = entry(header, reader)
		}
	}
	if errors.Is(err, io.EOF) {
		_, err = io.Copy(io.Discard, stream) // this checks the sum
	}
	if stream.N <= 0 {
		return refusal(fmt.Sprintf("the archive unpacks to more bytes than the limit of %d",
			layout.MaxUnpackedBytes))
	}
	return broken(err)
}

// broken makes a refusal of an error of the decoders; these quote nothing. It returns nil for nil, and refusals and
// errors of the disk unchanged.
func broken(err error) error {
	_, refused := errors.AsType[refusal](err)
	_, disk := errors.AsType[syscall.Errno](err)
	switch {
	case err == nil, refused, disk:
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return refusal("the archive ends too early")
	default:
		return refusal(fmt.Sprintf("the archive cannot be read: %v", err))
	}
}

// unpacking is the state of unpacking one archive.
type unpacking struct {
	root  *os.Root
	dir   string
	known entries
	left  int64
}

var entryNames = map[byte]string{
	tar.TypeSymlink: "a symbolic link", tar.TypeLink: "a hard link", tar.TypeFifo: "a pipe",
	tar.TypeChar: "a device", tar.TypeBlock: "a device",
	tar.TypeReg: "a sparse file", tar.TypeGNUSparse: "a sparse file",
}

func (u *unpacking) entry(header *tar.Header, content io.Reader) error {
	name, err := clean(header.Name)
	if err != nil {
		return err
	}
	switch {
	case header.Typeflag == tar.TypeDir:
		if err := u.known.add(name, directory); err != nil {
			return err
		}
		return u.mkdir(name)
	case header.Typeflag == tar.TypeReg && !sparse(header):
		if name == "." {
			return refuse(header.Name, "is no name of a file")
		}
		if err := u.known.add(name, file); err != nil {
			return err
		}
		return u.file(name, header, content)
	}
	what, ok := entryNames[header.Typeflag]
	if !ok {
		what = "neither a file nor a directory"
	}
	return refuse(header.Name, "is %s; only regular files and directories are unpacked", what)
}

// sparse reports whether the archive holds only parts of a file. A few bytes can stand for any size.
func sparse(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// mkdir makes a directory and its missing parents. A link is no directory, wherever it leads.
func (u *unpacking) mkdir(name string) error {
	at := u.dir
	for part := range strings.SplitSeq(name, "/") {
		at = path.Join(at, part)
		err := u.root.Mkdir(at, directoryMode)
		if errors.Is(err, fs.ErrExist) {
			if info, err := u.root.Lstat(at); err == nil && info.IsDir() {
				continue
			}
			return refuse(name, "is a directory in the archive, but something else is there")
		}
		if err != nil {
			return fmt.Errorf("make directory %q: %w", shorten(name), withoutPath(err))
		}
	}
	return nil
}

func (u *unpacking) file(name string, header *tar.Header, content io.Reader) error {
	if u.left -= header.Size; u.left < 0 {
		return refuse(name, "is too large: the archive unpacks to more bytes than the limit of %d",
			layout.MaxUnpackedBytes)
	}
	if err := u.mkdir(path.Dir(name)); err != nil {
		return err
	}
	at := path.Join(u.dir, name)
	if info, err := u.root.Lstat(at); err == nil && info.IsDir() {
		return refuse(name, "is a file in the archive, but a directory is there")
	}
	// Remove the old file and do not write to it, since it may be a link.
	if err := u.root.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace file %q: %w", shorten(name), withoutPath(err))
	}
	f, err := u.root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode(header.Mode&0o111 != 0))
	if err != nil {
		return fmt.Errorf("make file %q: %w", shorten(name), withoutPath(err))
	}
	_, err = io.Copy(f, content)
	err = errors.Join(err, f.Close())
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("write file %q: %w", shorten(name), withoutPath(err))
	}
	return err
}
