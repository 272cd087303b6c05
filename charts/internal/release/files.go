package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"testing/fstest" // which has a file system of a map
	"time"
)

// pack writes files to a tar.gz: in the order of their names, with one date and owner root, and executable only for
// programs. The same files give the same bytes.
func pack(to string, date time.Time, files fstest.MapFS) error {
	all := fstest.MapFS{}
	for name, file := range files {
		mode := fs.FileMode(0o644)
		switch {
		case file.Mode&fs.ModeSymlink != 0:
			mode = fs.ModeSymlink | 0o777
		case isProgram(file):
			mode = 0o755
		}
		all[name] = &fstest.MapFile{Data: file.Data, Mode: mode, ModTime: date}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			all[dir] = &fstest.MapFile{Mode: fs.ModeDir | 0o755, ModTime: date}
		}
	}
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	zipped := gzip.NewWriter(file)
	archive := tar.NewWriter(zipped)
	if err := errors.Join(archive.AddFS(all), archive.Close(), zipped.Close(), file.Close()); err != nil {
		return fmt.Errorf("pack %s: %w", to, err)
	}
	return nil
}

// unpack returns the files of a tar, without their dates and owners.
func unpack(packed io.Reader) (fstest.MapFS, error) {
	files := fstest.MapFS{}
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", header.Name, err)
		}
		files[header.Name] = &fstest.MapFile{Data: content, Mode: header.FileInfo().Mode()}
	}
}

func isProgram(file *fstest.MapFile) bool { return file.Mode&0o111 != 0 }

// addSums adds the checksums of all other files, as sha256sum writes them.
func (r *release) addSums() error {
	entries, err := os.ReadDir(r.options.out)
	if err != nil {
		return fmt.Errorf("list files of the release: %w", err)
	}
	var sums bytes.Buffer
	for _, entry := range entries {
		content, err := os.ReadFile(r.path(entry.Name()))
		if err != nil {
			return fmt.Errorf("sum up file: %w", err)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return r.write("SHA256SUMS", sums.Bytes())
}
