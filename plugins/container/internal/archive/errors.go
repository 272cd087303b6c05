package archive

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"unicode/utf8"
)

// Kind says why something is refused.
type Kind string

// The kinds of errors.
const (
	// Link: it is a symbolic link or, in an archive, a hard one.
	Link Kind = "Link"
	// Special: it is a device, a pipe, a socket, or whatever else is not of the type that is expected.
	Special Kind = "Special"
	// Name: its name leads out of the directory, is too long, or is none.
	Name Kind = "Name"
	// Taken: its name is that of something else.
	Taken Kind = "Taken"
	// TooLarge: there are more bytes than are allowed.
	TooLarge Kind = "TooLarge"
	// TooMany: there are more files and directories than are allowed.
	TooMany Kind = "TooMany"
	// Changed: it was not left alone while it was read.
	Changed Kind = "Changed"
	// Damaged: it is no archive that can be read.
	Damaged Kind = "Damaged"
)

// Error is why a file, a directory or an archive is refused. It quotes names, and never what is in a file.
type Error struct {
	Kind Kind
	// Path is relative to the root, or the name of an entry as an archive spells it: it may be hostile. Empty if an archive as a whole is meant.
	Path string
	// Reason is a clause about it.
	Reason string
}

// Error returns a sentence that is safe to be shown: names are quoted and not long.
func (e *Error) Error() string {
	if e.Path == "" {
		return "the archive " + e.Reason
	}
	return fmt.Sprintf("%q %s", shorten(e.Path), e.Reason)
}

func refuse(kind Kind, path, format string, args ...any) error {
	return &Error{Kind: kind, Path: path, Reason: fmt.Sprintf(format, args...)}
}

// shorten keeps a message readable whatever a file is called. The end of a name tells more than its beginning.
func shorten(name string) string {
	const enough = 200
	if len(name) <= enough {
		return name
	}
	cut := len(name) - enough
	for cut < len(name) && !utf8.RuneStart(name[cut]) {
		cut++
	}
	return "..." + name[cut:]
}

// wrongType refuses a file for its type.
func wrongType(path string, found fs.FileMode, expected string) error {
	kind, what := Special, ""
	switch found.Type() {
	case fs.ModeSymlink:
		kind, what = Link, "a symbolic link"
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		what = "a device"
	case fs.ModeNamedPipe:
		what = "a pipe"
	case fs.ModeSocket:
		what = "a socket"
	case fs.ModeDir:
		what = "a directory"
	case 0:
		what = "a regular file"
	default:
		what = "neither a file nor a directory"
	}
	return refuse(kind, path, "is %s, but only %s can be taken; replace or remove it", what, expected)
}

// wrongEntry refuses an entry of an archive for its type.
func wrongEntry(header *tar.Header) error {
	kind, what := Special, "neither a file nor a directory"
	switch header.Typeflag {
	case tar.TypeSymlink:
		kind, what = Link, "a symbolic link"
	case tar.TypeLink:
		kind, what = Link, "a hard link"
	case tar.TypeChar, tar.TypeBlock:
		what = "a device"
	case tar.TypeFifo:
		what = "a pipe"
	case tar.TypeGNUSparse, tar.TypeReg:
		what = "a sparse file"
	}
	return refuse(kind, header.Name, "is %s; only regular files and directories are unpacked", what)
}
