package config

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxProblems bounds the problems that are kept of one document.
const maxProblems = 100

// Error is everything that is wrong with a HostConfiguration.
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
		if problem.Field == "" {
			lines = append(lines, e.Source+": "+problem.Detail)
			continue
		}
		lines = append(lines, e.Source+": "+problem.Field+": "+problem.Detail)
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

func (p *problems) add(errs ...*field.Error) {
	for _, err := range errs {
		switch {
		case p.reported[err.Field]:
		case len(p.list) == maxProblems:
			p.more = true
		default:
			if p.reported == nil {
				p.reported = map[string]bool{}
			}
			p.reported[err.Field] = true
			p.list = append(p.list, err)
		}
	}
}

// addConsequences adds problems of values, except those of a value that could not be read: it has its problem already.
func (p *problems) addConsequences(errs field.ErrorList) {
	p.add(slices.DeleteFunc(errs, func(err *field.Error) bool { return p.covers(err.Field) })...)
}

// covers tells whether there is a problem with something that the field is a part of.
func (p *problems) covers(path string) bool {
	for i, r := range path {
		if (r == '.' || r == '[') && p.reported[path[:i]] {
			return true
		}
	}
	return false
}

// at notes a problem of the value at path; nil stands for the document as a whole.
func (p *problems) at(path *field.Path, format string, args ...any) {
	err := invalid(path, format, args...)
	if path == nil {
		err.Field = ""
	}
	p.add(err)
}

// child appends a key that a document holds to a path. Keys may be of any length and content; they are quoted unless they look
// like a name.
func child(path *field.Path, key string) *field.Path {
	plain := key != "" && len(key) <= longest && !strings.ContainsFunc(key, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", r)
	})
	if plain {
		return path.Child(key)
	}
	if path == nil {
		return field.NewPath(quote(key))
	}
	return path.Key(quote(key))
}

// longest bounds what is quoted of one text.
const longest = 64

// quote quotes a text and shortens it if it is unusually long.
func quote(text string) string {
	return strconv.Quote(shortened(text, longest))
}

func shortened(text string, to int) string {
	if runes := []rune(text); len(runes) > to {
		return string(runes[:to]) + "..."
	}
	return text
}
