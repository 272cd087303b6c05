package archive

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// Files returns the files of an archive that FromFiles has made, by their paths. The error is an *Error, which is Damaged if it cannot be read.
func Files(r io.Reader) (map[string][]byte, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, broken(err)
	}
	zip.Multistream(false)
	entries := tar.NewReader(&meter{from: zip, left: maxStreamBytes})
	files := map[string][]byte{}
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, broken(err)
		}
		if header.Typeflag != tar.TypeReg || len(files) >= layout.MaxFiles {
			continue
		}
		if files[header.Name], err = io.ReadAll(entries); err != nil {
			return nil, broken(err)
		}
	}
}
