package archive

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNameBytes is more than any chart needs, and less than a path may have on Linux.
const maxNameBytes = 1024

var drive = regexp.MustCompile(`^[A-Za-z]:`)

// splitName splits the name of an entry into the folder that everything is in, and the rest, which is empty for that folder itself. A name
// that another tool could take for another one is refused.
func splitName(name string) (top, rest string, err error) {
	switch {
	case name == "":
		return "", "", invalid("has no name")
	case len(name) > maxNameBytes:
		return "", "", exceeded("has a name of %d bytes; %d are allowed", len(name), maxNameBytes)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "", "", invalid("has a name with characters that do not belong in one")
	case strings.Contains(name, `\`):
		return "", "", invalid(`has a name with a "\"; pack the chart with "helm package", which writes "/"`)
	case path.IsAbs(name):
		return "", "", invalid("has an absolute name")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "", "", invalid(`has a name with "..", which leads out of a folder`)
	case path.Clean(name) != name || name == ".":
		return "", "", invalid("has a name that means another one, %q", shorten(path.Clean(name)))
	}
	top, rest, _ = strings.Cut(name, "/")
	if drive.MatchString(top) || drive.MatchString(rest) {
		return "", "", invalid("has a name that begins with a drive")
	}
	return top, rest, nil
}
