// Package archive moves directories between containers without trust in each other, as gzipped tar archives in chunks
// with the size of a Secret.
//
// An image may put anything into its directories. Pack and Open stay in their root, wait for nothing, and take
// regular files and directories alone. Archives may come from Landscaper's deployer, and through other hands: Unpack
// makes regular files and directories below its directory, within limits, whatever the archive holds.
package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

const (
	plainMode      = 0o644
	executableMode = 0o755
	directoryMode  = 0o755

	// maxNameBytes is more than any name needs, and bounds the depth of nested directories: each is opened on the way to
	// a file.
	maxNameBytes = 1024
)

// Split cuts an archive into chunks of layout.ChunkBytes; the last one may be shorter. They share its memory.
func Split(archive []byte) [][]byte {
	return slices.Collect(slices.Chunk(archive, layout.ChunkBytes))
}

// Join returns a split archive, for Unpack. More bytes may follow its end: Landscaper fills the last chunk up with
// the rest of its buffer.
func Join(chunks [][]byte) io.Reader {
	readers := make([]io.Reader, len(chunks))
	for i, chunk := range chunks {
		readers[i] = bytes.NewReader(chunk)
	}
	return io.MultiReader(readers...)
}

// refusal is the reason against a file or an archive, as a sentence safe to show: names are quoted and short, and no
// content of files is in it.
type refusal string

func (r refusal) Error() string { return string(r) }

// refuse returns the refusal of a file by its name; the name may be hostile.
func refuse(name, format string, args ...any) error {
	return refusal(fmt.Sprintf("%q ", shorten(name)) + fmt.Sprintf(format, args...))
}

// shorten keeps a message readable despite a long name. The end of a name is more distinctive than its beginning.
func shorten(name string) string {
	const enough = 200
	if len(name) <= enough {
		return name
	}
	return "..." + name[len(name)-enough:]
}

// withoutPath takes the path from an error: the message has it already, and shorter.
func withoutPath(err error) error {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		return inner.Err
	}
	return err
}

func fileMode(executable bool) fs.FileMode {
	if executable {
		return executableMode
	}
	return plainMode
}

// clean validates and normalizes the name of an entry: "." for the packed directory itself.
func clean(name string) (string, error) {
	switch {
	case name == "":
		return "", refuse(name, "has an entry without a name")
	case len(name) > maxNameBytes:
		return "", refuse(name, "has a name of %d bytes; %d are allowed", len(name), maxNameBytes)
	case path.IsAbs(name):
		return "", refuse(name, "has an absolute name")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "", refuse(name, `has a name with "..": it would lead out of its directory`)
	}
	return path.Clean(name), nil
}

// entries has the clean names of an archive and their kinds. It bounds their number.
type entries map[string]kind

type kind int

const (
	file kind = iota + 1
	directory
	// implied is a directory without an entry so far, but with something in it.
	implied
)

// add adds an entry. No name may come twice, nor below a file.
func (e entries) add(name string, k kind) error {
	for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
		switch e[parent] {
		case file:
			return refuse(name, "is in %q, but that is a file", shorten(parent))
		case directory, implied:
		default:
			e[parent] = implied
		}
	}
	if known := e[name]; known != 0 && (known != implied || k != directory) {
		return refuse(name, "is there twice")
	}
	e[name] = k
	if len(e) > layout.MaxFiles {
		return refuse(name, "is one too many: %d files and directories are allowed", layout.MaxFiles)
	}
	return nil
}
