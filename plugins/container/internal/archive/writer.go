package archive

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
)

const (
	plainMode      = 0o644
	executableMode = 0o755
	directoryMode  = 0o755
)

func fileMode(executable bool) fs.FileMode {
	if executable {
		return executableMode
	}
	return plainMode
}

// writer writes an archive without anything that would make it another one tomorrow.
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

// file writes a file of a size. The error is io.EOF if the content ends before; what is beyond the size is not read.
func (w *writer) file(name string, executable bool, size int64, content io.Reader) error {
	if err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(fileMode(executable)), Size: size}); err != nil {
		return err
	}
	_, err := io.CopyN(w.tar, content, size)
	return err
}

func (w *writer) close() error { return errors.Join(w.tar.Close(), w.zip.Close()) }
