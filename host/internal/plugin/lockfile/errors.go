package lockfile

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxProblems bounds the problems that are kept of one document.
const maxProblems = 100

// Error is everything that is wrong with the content of a lock file.
type Error struct {
	// Source is where the document comes from, such as the name of the file.
	Source string
	// Problems are at least one, and at most the first hundred. The field is empty for the document as a whole; the detail is a
	// sentence that says what was expected and what was found.
	Problems field.ErrorList
	// More problems were found than are kept.
	More bool
}

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems)+1)
	for _, problem := range e.Problems {
		place := e.Source
		if problem.Field != "" {
			place += ": " + problem.Field
		}
		lines = append(lines, place+": "+problem.Detail)
	}
	if e.More {
		lines = append(lines, e.Source+": there are more errors than these "+strconv.Itoa(maxProblems))
	}
	return strings.Join(lines, "\n")
}

// problems collects what is wrong with a document, one problem for each field: the first is the cause of the others.
type problems struct {
	list     field.ErrorList
	more     bool
	reported map[string]bool
}

// at notes a problem of the value at path; nil stands for the document as a whole.
func (p *problems) at(path *field.Path, format string, args ...any) {
	place := ""
	if path != nil {
		place = path.String()
	}
	switch {
	case p.reported[place]:
	case len(p.list) == maxProblems:
		p.more = true
	default:
		if p.reported == nil {
			p.reported = map[string]bool{}
		}
		p.reported[place] = true
		p.list = append(p.list, &field.Error{Type: field.ErrorTypeInvalid, Field: place, Detail: fmt.Sprintf(format, args...)})
	}
}

// longest bounds what is quoted of one text.
const longest = 64

// quote quotes a text and shortens it if it is unusually long.
func quote(text string) string { return strconv.Quote(shortened(text)) }

func shortened(text string) string {
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest]) + "..."
	}
	return text
}

// child appends a key that a document holds to a path. Keys may be of any length and content; they are quoted unless they look
// like a name.
func child(path *field.Path, key string) *field.Path {
	plain := key != "" && len(key) <= longest && !strings.ContainsFunc(key, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", r)
	})
	if !plain {
		key = quote(key)
	}
	return path.Child(key)
}
