// Package jsonpath finds values in objects by JSON paths as kubectl reads them, and compares them. It uses the parser
// of kubectl but not its evaluator: that has no bound for the cost of a path, returns the values of maps in a random
// order, compares no integer with a fraction, drops the rest after an empty list, and is not safe for concurrent use.
package jsonpath

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// The cost of a path: paths and objects come from users without mutual trust, but with a shared process.
const (
	// maxLength of a path in bytes. It bounds the nesting of a path, too.
	maxLength = 2048
	// maxSteps bounds the visited values; they take some milliseconds.
	maxSteps = 200_000
	// maxResults bounds the values of a path.
	maxResults = 10_000
	// maxSize of a single value in bytes, more or less, as JSON or as text. No object can keep a larger one.
	maxSize = 1 << 20
)

// ErrTooMuch is the error for a path to too many or too large values.
var ErrTooMuch = errors.New("the path leads to too much")

// Path is a JSON path. The zero value leads to nothing. It is immutable and safe for concurrent use.
type Path struct {
	text  string
	nodes []jsonpath.Node
}

// Parse reads a path of at most 2048 bytes with or without braces: "{.data.a}", ".data.a" and "data.a" are the same.
// There may be text around braces, and ranges.
func Parse(text string) (Path, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return Path{}, errors.New("the path is empty")
	case len(text) > maxLength:
		return Path{}, fmt.Errorf("the path is longer than %d bytes", maxLength)
	}
	parser, err := jsonpath.Parse("path", brace(strings.TrimSpace(text)))
	if err != nil {
		return Path{}, fmt.Errorf("parse JSON path: %w", err)
	}
	if err := check(parser.Root.Nodes); err != nil {
		return Path{}, fmt.Errorf("parse JSON path: %w", err)
	}
	return Path{text: text, nodes: parser.Root.Nodes}, nil
}

// brace puts a path without braces into them: without, the parser takes it for literal text.
func brace(text string) string {
	switch {
	case strings.Contains(text, "{"):
		return text
	case text != "" && strings.ContainsRune(".$@[", rune(text[0])):
		return "{" + text + "}"
	default:
		return "{." + text + "}"
	}
}

// String returns the path as it was written.
func (p Path) String() string { return p.text }

// Find returns all values of the path; they share memory with in. For a path mixed with text it returns the one
// resulting text. There are none if any part of the path leads to nothing, or is unsuitable for the object, such as
// an index for a map: all this may change with the object. A null is one of several values, but none if it is alone.
// The error is ErrTooMuch.
func (p Path) Find(in map[string]any) ([]any, error) {
	e := evaluator{left: maxSteps}
	var values []any
	if steps, ok := p.steps(); ok {
		values = e.walk([]any{in}, steps)
	} else {
		var text strings.Builder
		if e.render(&text, in, p.nodes) > 0 {
			values = []any{text.String()}
		}
	}
	switch {
	case errors.Is(e.err, errUnsuitable):
		return nil, nil
	case e.err != nil:
		return nil, e.err
	case len(values) > maxResults:
		return nil, ErrTooMuch
	case isNothing(values):
		return nil, nil
	default:
		return values, nil
	}
}

// steps returns the steps of a path to values. ok is false for a path to a text.
func (p Path) steps() (steps []jsonpath.Node, ok bool) {
	if len(p.nodes) != 1 {
		return nil, false
	}
	list, ok := p.nodes[0].(*jsonpath.ListNode)
	if !ok {
		return nil, false
	}
	word, steps := keyword(list)
	return steps, word == ""
}

func isNothing(values []any) bool {
	return len(values) == 0 || (len(values) == 1 && values[0] == nil)
}

// Value returns the values of the path as one: several values are their list. The error is ErrTooMuch.
func (p Path) Value(in map[string]any) (value any, ok bool, err error) {
	values, err := p.Find(in)
	if err != nil || len(values) == 0 {
		return nil, false, err
	}
	if len(values) == 1 {
		value = values[0]
	} else {
		value = values
	}
	if left := weigh(value, maxSize); left < 0 {
		return nil, false, ErrTooMuch
	}
	return value, true, nil
}

// weigh subtracts the approximate size of a value as JSON from the remaining bytes, and stops below zero.
func weigh(value any, left int) int {
	const smallest = 2 // nothing is shorter with its separator
	switch value := value.(type) {
	case map[string]any:
		left -= smallest
		for key, inner := range value {
			if left = weigh(inner, left-len(key)-2*smallest); left < 0 {
				return left
			}
		}
		return left
	case []any:
		left -= smallest
		for _, inner := range value {
			if left = weigh(inner, left); left < 0 {
				return left
			}
		}
		return left
	case string:
		return left - len(value) - smallest
	default:
		return left - smallest
	}
}
