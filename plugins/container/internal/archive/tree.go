package archive

import (
	"path"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// maxNameBytes is more than any name needs, and bounds how deep directories are nested: each of them is opened on the way to a file.
const maxNameBytes = 1024

// clean returns the name of an entry without what does not matter in it: "." for the directory that is packed.
func clean(name string) (string, error) {
	switch {
	case name == "":
		return "", refuse(Name, name, "has an entry without a name")
	case len(name) > maxNameBytes:
		return "", refuse(Name, name, "has a name of %d bytes; %d are allowed", len(name), maxNameBytes)
	case path.IsAbs(name):
		return "", refuse(Name, name, "has an absolute name")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "", refuse(Name, name, `has a name with "..", which leads out of a directory`)
	}
	return path.Clean(name), nil
}

// node is what an archive has at a path.
type node int

const (
	file node = iota + 1
	directory
	// implied is a directory that has no entry, or none yet, but something is in it.
	implied
)

// tree has all paths of an archive. They are clean.
type tree map[string]node

// add adds an entry. It returns the directories above it that were not known, the outermost first. No path may be taken twice, nor
// be in a file.
func (t tree) add(name string, n node) (above []string, err error) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		parent := name[:i]
		known := t[parent]
		if known == file {
			return nil, refuse(Taken, name, "is in %q, which is a file", shorten(parent))
		}
		if known == 0 {
			if err := t.set(parent, implied); err != nil {
				return nil, err
			}
			above = append(above, parent)
		}
	}
	if known := t[name]; known != 0 && (known != implied || n != directory) {
		return nil, refuse(Taken, name, "is there twice")
	}
	return above, t.set(name, n)
}

func (t tree) set(name string, n node) error {
	t[name] = n
	if len(t) > layout.MaxFiles {
		return refuse(TooMany, name, "is one too many: %d files and directories are allowed", layout.MaxFiles)
	}
	return nil
}
