package archive

import (
	"fmt"
	"io"
)

// Limits are what a chart may need, all of its sub-charts included. All are positive, except that a Depth of zero allows no sub-charts.
type Limits struct {
	// UnpackedBytes bounds everything that is decompressed: files, what surrounds them in an archive, and what is packed in them. Text that
	// YAML repeats by aliases counts, too. The archive itself may not be bigger either.
	UnpackedBytes int64
	// Files bounds the entries of all archives together. Folders are entries, too.
	Files int
	// Depth bounds how deep sub-charts are nested: those in charts/ are at depth 1.
	Depth int
}

// File is a file of a chart.
type File struct {
	// Name is relative to the chart's folder, in the form that path.Clean returns.
	Name string
	Data []byte
}

// Read reads the packed chart from r, to the end. The files come in the order of the archive, without a byte order mark. Archives of
// sub-charts are among them as they are: they have been read, too. The error is an *Error if the archive is refused; any other is one of r.
func Read(r io.Reader, limits Limits) ([]File, error) {
	source := &source{from: r}
	b := &budget{limits: limits, bytes: limits.UnpackedBytes, files: limits.Files, entries: maxChartEntries}
	left := limits.UnpackedBytes
	packed := &meter{from: source, left: &left, refusal: exceeded("is larger than the %d bytes that are allowed", limits.UnpackedBytes)}

	files, err := b.unpack(packed)
	if source.err != nil {
		return nil, fmt.Errorf("read chart archive: %w", source.err)
	}
	if err != nil {
		return nil, err
	}
	if _, err := b.check(files, 0); err != nil {
		return nil, err
	}
	return files, nil
}

// budget is what is left of the limits.
type budget struct {
	limits Limits
	bytes  int64
	files  int
	// entries of YAML, see maxChartEntries.
	entries int
}

// meter ends with a refusal when there is more to be read than is left. It never asks for more than one byte above that.
type meter struct {
	from    io.Reader
	left    *int64
	refusal error
}

func (m *meter) Read(p []byte) (int, error) {
	if *m.left < 0 {
		return 0, m.refusal
	}
	if int64(len(p)) > *m.left {
		p = p[:*m.left+1]
	}
	n, err := m.from.Read(p)
	if *m.left -= int64(n); *m.left < 0 {
		return 0, m.refusal
	}
	return n, err
}

// source remembers that reading has failed, since what reads from it makes other errors of that.
type source struct {
	from io.Reader
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
