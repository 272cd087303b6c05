// Package jsonpath finds values in objects by JSON paths as kubectl reads them, and compares them. It uses the parser
// of kubectl but not its evaluator, which has no bound for what a path may cost, returns the values of maps in a random
// order, compares no integer with a fraction, drops what comes after an empty list, and is not safe for concurrent use.
package jsonpath

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// What a path may cost: paths and objects come from people who need not trust each other, but share a process.
const (
	// maxLength of a path in bytes. It bounds how deep a path nests, too.
	maxLength = 2048
	// maxSteps is how many values may be visited, which takes some milliseconds.
	maxSteps = 200_000
	// maxResults is how many values a path may lead to.
	maxResults = 10_000
	// maxSize of a single value in bytes, more or less, as JSON or as text. No object can keep a larger one.
	maxSize = 1 << 20
)

// ErrTooMuch says that a path leads to so many or so large values that it is given up.
var ErrTooMuch = errors.New("the path leads to too much")

// Path is a JSON path. The zero value leads to nothing. It does not change and is safe for concurrent use.
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
	case strings.HasPrefix(text, ".") || strings.HasPrefix(text, "$") || strings.HasPrefix(text, "@") || strings.HasPrefix(text, "["):
		return "{" + text + "}"
	default:
		return "{." + text + "}"
	}
}

// String returns the path as it was written.
func (p Path) String() string { return p.text }

// Find returns all values that the path leads to, which share memory with in; for a path that is mixed with text the
// one text that it makes. There are none if any part of the path leads to nothing, or does not suit the object, as an
// index suits no map: all that may change with the object. A null is one of several values, but none if it is alone.
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

// steps returns the steps of a path that leads to values. ok is false if it leads to a text that is made of them.
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

// Value returns what the path leads to as one value: several values are their list. The error is ErrTooMuch.
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

// weigh takes about the size of a value as JSON off what is left, and stops when nothing is.
func weigh(value any, left int) int {
	const smallest = 2 // nothing is shorter with what separates it from the next
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
