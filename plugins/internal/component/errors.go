package component

import (
	"fmt"
	"strconv"
	"strings"
)

// Error is a problem with a document of the component model. Its text is for users and has no secrets.
type Error struct {
	// Final says that no retry heals it: the document that the error names has to be changed.
	Final bool
	// Err names the object, the field, what was found, and what to do.
	Err error
}

// Error returns the text of Err.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// finalf returns a final *Error. The format is that of fmt.Errorf.
func finalf(format string, args ...any) error {
	return &Error{Final: true, Err: fmt.Errorf(format, args...)}
}

const (
	// maxShown bounds a text of a document in an error, in bytes.
	maxShown = 128
	// maxListed bounds how many of them an error lists.
	maxListed = 20
)

// shown quotes a text of a document.
func shown(text string) string {
	if len(text) > maxShown {
		return strconv.Quote(text[:maxShown]) + "…"
	}
	return strconv.Quote(text)
}

// listed joins texts for an error.
func listed(texts []string) string {
	if more := len(texts) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:maxListed], ", "), more)
	}
	return strings.Join(texts, ", ")
}
