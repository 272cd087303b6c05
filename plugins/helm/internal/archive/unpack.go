package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// maxFileBytes is how large a file of a chart may be for Helm itself.
const maxFileBytes = 5 << 20

var byteOrderMark = []byte("\xef\xbb\xbf")

// unpack reads the files of one archive.
func (b *budget) unpack(r io.Reader) ([]File, error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, broken("is not gzipped", err)
	}
	stream := &meter{from: unzipped, left: &b.bytes, refusal: exceeded("unpacks to more than the %d bytes that are allowed", b.limits.UnpackedBytes)}

	u := unpacking{budget: b, tar: tar.NewReader(stream), seen: map[string]struct{}{}}
	for {
		header, err := u.tar.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, broken("is not a tar archive that can be read", err)
		}
		if err := u.entry(header); err != nil {
			return nil, at(header.Name, err)
		}
	}
	if err := onlyZeros(stream); err != nil {
		return nil, err
	}
	if len(u.files) == 0 {
		return nil, invalid("holds no files")
	}
	return u.files, nil
}

// broken makes a refusal of an error of the decoders, which quote nothing. If it is a refusal already, that it stays.
func broken(reason string, err error) error {
	if refusal, ok := errors.AsType[*Error](err); ok {
		return refusal
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return invalid("%s: it ends too early", reason)
	}
	return invalid("%s: %v", reason, err)
}

// onlyZeros reads what comes after the end of a tar archive: padding. Reading it checks the sums of the compression, too.
func onlyZeros(r io.Reader) error {
	buffer := make([]byte, 16<<10)
	for {
		n, err := r.Read(buffer)
		if slices.ContainsFunc(buffer[:n], func(c byte) bool { return c != 0 }) || errors.Is(err, gzip.ErrHeader) {
			return invalid("goes on after its end")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return broken("is damaged", err)
		}
	}
}

// unpacking is the state of reading one archive.
type unpacking struct {
	budget *budget
	tar    *tar.Reader
	// top is the folder that everything is in.
	top   string
	seen  map[string]struct{}
	files []File
}

func (u *unpacking) entry(header *tar.Header) error {
	if u.budget.files--; u.budget.files < 0 {
		return exceeded("is one too many: %d files and folders are allowed", u.budget.limits.Files)
	}
	// Helm asks for the mode and not for the type only. What the two disagree on is no regular file.
	mode := header.FileInfo().Mode().Type()
	switch {
	case header.Typeflag == tar.TypeXGlobalHeader:
		return nil // says something about the archive, such as the commit that git has made it of
	case header.Typeflag == tar.TypeDir && mode == fs.ModeDir:
		return u.folder(header)
	case header.Typeflag == tar.TypeReg && mode == 0 && !sparse(header):
		return u.file(header)
	default:
		return invalid("is %s; a chart consists of regular files", kindOf(header))
	}
}

func (u *unpacking) folder(header *tar.Header) error {
	top, _, err := splitName(strings.TrimSuffix(header.Name, "/"))
	if err != nil {
		return err
	}
	return u.within(top)
}

func (u *unpacking) file(header *tar.Header) error {
	top, name, err := splitName(header.Name)
	if err != nil {
		return err
	}
	if name == "" {
		return invalid("is not in the chart's folder; pack the folder and not what is in it")
	}
	if err := u.within(top); err != nil {
		return err
	}
	if _, twice := u.seen[name]; twice {
		return invalid("is in the archive twice")
	}
	u.seen[name] = struct{}{}
	if header.Size > maxFileBytes {
		return exceeded("has %d bytes; %d are allowed", header.Size, maxFileBytes)
	}
	if header.Size > u.budget.bytes { // told here, before memory is asked for
		return exceeded("is too large: the chart unpacks to more than the %d bytes that are allowed", u.budget.limits.UnpackedBytes)
	}
	data := make([]byte, header.Size)
	if _, err := io.ReadFull(u.tar, data); err != nil {
		return broken("cannot be read", err)
	}
	u.files = append(u.files, File{Name: name, Data: bytes.TrimPrefix(data, byteOrderMark)})
	return nil
}

// within checks that everything is in one folder. Helm does not mind, and takes what is in others for the same chart.
func (u *unpacking) within(top string) error {
	if u.top == "" {
		u.top = top
	}
	if top != u.top {
		return invalid("is not in the folder %q as what comes before it; an archive holds one chart", shorten(u.top))
	}
	return nil
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

func kindOf(header *tar.Header) string {
	switch header.Typeflag {
	case tar.TypeSymlink:
		return "a symbolic link"
	case tar.TypeLink:
		return "a hard link"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a pipe"
	case tar.TypeGNUSparse:
		return "a sparse file"
	case tar.TypeReg:
		if sparse(header) {
			return "a sparse file"
		}
	}
	return "neither a file nor a folder"
}
