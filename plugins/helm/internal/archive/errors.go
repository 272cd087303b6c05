package archive

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Kind says what is wrong with an archive.
type Kind string

// The kinds of errors.
const (
	// Invalid: the archive is no chart, or one that is not to be trusted.
	Invalid Kind = "Invalid"
	// LimitExceeded: the chart needs more than is allowed. It may be a good one.
	LimitExceeded Kind = "LimitExceeded"
)

// Error is why an archive is refused. It quotes names, and of what is in a file no more than a parser does
// in a line.
type Error struct {
	Kind Kind
	// File is the name of the file in question, relative to the chart's folder or as the archive spells it: it may be hostile. That of a file
	// in the archive of a sub-chart begins with the name of that archive. Empty if the archive as a whole is meant.
	File string
	// Reason is a clause about the file, or about the archive.
	Reason string
}

// Error returns a sentence that is safe to be shown: names are quoted and not long.
func (e *Error) Error() string {
	if e.File == "" {
		return "the chart archive " + e.Reason
	}
	return fmt.Sprintf("the file %q of the chart %s", shorten(e.File), e.Reason)
}

func invalid(format string, args ...any) error {
	return &Error{Kind: Invalid, Reason: fmt.Sprintf(format, args...)}
}

func exceeded(format string, args ...any) error {
	return &Error{Kind: LimitExceeded, Reason: fmt.Sprintf(format, args...)}
}

// unreadable passes on what the parser of YAML says. It tells the line, and quotes little unless it is made to.
func unreadable(err error) error {
	const enough = 200
	reason := strings.ToValidUTF8(err.Error(), "?")
	if len(reason) > enough {
		reason = strings.ToValidUTF8(reason[:enough], "") + "..."
	}
	return invalid("is no YAML that can be read: %q", reason)
}

// at says where an error is from. Errors that are not about the archive stay as they are.
func at(file string, err error) error {
	if inner, ok := errors.AsType[*Error](err); ok {
		if inner.File != "" && file != "" {
			file += "/"
		}
		return &Error{Kind: inner.Kind, File: file + inner.File, Reason: inner.Reason}
	}
	return err
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
