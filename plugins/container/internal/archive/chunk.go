package archive

import (
	"bytes"
	"io"
	"slices"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// Split cuts an archive into chunks of layout.ChunkBytes; the last one may be shorter. They share the memory of the archive.
func Split(archive []byte) [][]byte {
	return slices.Collect(slices.Chunk(archive, layout.ChunkBytes))
}

// Join returns the archive that chunks are of, for Unpack. There may be something behind its end: Landscaper fills the last chunk up with what
// it had in its buffer.
func Join(chunks [][]byte) io.Reader {
	readers := make([]io.Reader, len(chunks))
	for i, chunk := range chunks {
		readers[i] = bytes.NewReader(chunk)
	}
	return io.MultiReader(readers...)
}
