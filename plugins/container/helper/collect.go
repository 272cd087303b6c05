package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// results are what main has left.
type results struct {
	chunks  [][]byte
	exports []byte
	report  layout.Report
}

// collect takes what main has left, and reports what cannot be taken.
func collect(shared *os.Root, u *layout.Upload) *results {
	r := &results{}
	packed, err := archive.Pack(shared, inShared(layout.State), int64(len(u.State))*layout.ChunkBytes)
	if err != nil {
		r.report.StateFailed = true
		r.report.Errors = append(r.report.Errors, fmt.Sprintf("the state is not kept: %v", advised(err)))
	} else {
		r.chunks = archive.Split(packed)
		r.report.StateChunks, r.report.StateBytes = len(r.chunks), int64(len(packed))
	}
	r.exports, err = readExports(shared, u.MaxExportBytes)
	switch {
	case err == nil:
		r.report.Exported = true
	case !errors.Is(err, fs.ErrNotExist):
		r.report.Errors = append(r.report.Errors, fmt.Sprintf("the exports are not taken: %v", advised(err)))
	}
	return r
}

// readExports reads the file with exports. The error is fs.ErrNotExist if there is none.
func readExports(shared *os.Root, most int64) ([]byte, error) {
	name := inShared(layout.Exports)
	f, err := archive.Open(shared, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at %q: %w", name, err)
	}
	if info.Size() > most {
		return nil, fmt.Errorf("%q has %d bytes, but %d are allowed; export less", name, info.Size(), most)
	}
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	if int64(len(content)) > most {
		return nil, fmt.Errorf("%q has grown to more than the %d bytes that are allowed; let nothing write there when the main process has ended", name, most)
	}
	return content, nil
}

// advised says what to do about an error that does not.
func advised(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; have the image let all users read what it leaves", err)
	}
	return err
}
