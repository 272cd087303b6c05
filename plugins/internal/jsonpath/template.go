package jsonpath

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

type kind int

const (
	literal kind = iota
	expression
	loop
)

// part of a path: a text, an expression in braces, or a range with what is repeated for each value that its steps lead to.
type part struct {
	kind  kind
	text  string
	steps []jsonpath.Node
	body  []part
}

// structure sorts what was parsed into parts, up to the end of the range that it is in, and returns the rest. A range that has no end
// ends with the path.
func structure(nodes []jsonpath.Node, inLoop bool) (parts []part, rest []jsonpath.Node, err error) {
	for len(nodes) > 0 {
		node := nodes[0]
		nodes = nodes[1:]
		switch node := node.(type) {
		case *jsonpath.TextNode:
			parts = append(parts, part{kind: literal, text: node.Text})
		case *jsonpath.ListNode:
			word, steps := keyword(node)
			if err := checkSteps(steps); err != nil {
				return nil, nil, err
			}
			switch {
			case word == "":
				parts = append(parts, part{kind: expression, steps: steps})
			case word == "range":
				next := part{kind: loop, steps: steps}
				if next.body, nodes, err = structure(nodes, true); err != nil {
					return nil, nil, err
				}
				parts = append(parts, next)
			case word == "end" && inLoop && len(steps) == 0:
				return parts, nodes, nil
			case word == "end":
				return nil, nil, errors.New("{end} has nothing to end")
			default:
				return nil, nil, unknown(word)
			}
		default:
			return nil, nil, fmt.Errorf("%s outside of braces", node)
		}
	}
	return parts, nil, nil
}

// keyword takes the word that an expression begins with from its steps; "" if there is none.
func keyword(list *jsonpath.ListNode) (word string, steps []jsonpath.Node) {
	if len(list.Nodes) > 0 {
		if first, ok := list.Nodes[0].(*jsonpath.IdentifierNode); ok {
			return first.Name, list.Nodes[1:]
		}
	}
	return "", list.Nodes
}

func unknown(word string) error {
	return fmt.Errorf("unknown word %q: a field needs a dot before its name", word)
}

// checkSteps refuses words in the middle of an expression, which the parser lets pass.
func checkSteps(steps []jsonpath.Node) error {
	for _, step := range steps {
		var inner [][]jsonpath.Node
		switch step := step.(type) {
		case *jsonpath.IdentifierNode:
			return unknown(step.Name)
		case *jsonpath.FilterNode:
			inner = [][]jsonpath.Node{step.Left.Nodes, step.Right.Nodes}
		case *jsonpath.UnionNode:
			for _, list := range step.Nodes {
				inner = append(inner, list.Nodes)
			}
		}
		for _, steps := range inner {
			if err := checkSteps(steps); err != nil {
				return err
			}
		}
	}
	return nil
}

// render makes the text of a path that is mixed with text. ok is false if a part of it has no value.
func (e *evaluator) render(in any, parts []part) (text string, ok bool, err error) {
	var out strings.Builder
	rendered, err := e.renderInto(&out, in, parts)
	return out.String(), rendered > 0, err
}

// renderInto returns how many parts it has written, where a range counts as often as it is repeated.
func (e *evaluator) renderInto(out *strings.Builder, in any, parts []part) (rendered int, err error) {
	for _, p := range parts {
		if err := e.spend(1); err != nil {
			return 0, err
		}
		if p.kind == literal {
			out.WriteString(p.text)
			rendered++
			continue
		}
		values, err := e.walk([]any{in}, p.steps)
		if err != nil {
			return 0, err
		}
		if p.kind == loop {
			for _, value := range values {
				more, err := e.renderInto(out, value, p.body)
				if err != nil {
					return 0, err
				}
				rendered += more
			}
			continue
		}
		if len(values) == 0 || (len(values) == 1 && values[0] == nil) {
			return 0, errUnsuitable
		}
		rendered++
		for i, value := range values {
			if i > 0 {
				out.WriteByte(' ')
			}
			if err := write(out, value); err != nil {
				return 0, err
			}
		}
	}
	if out.Len() > maxSize {
		return 0, ErrTooMuch
	}
	return rendered, nil
}

// write writes a value as kubectl does: maps and lists as JSON, all else as it is.
func write(out *strings.Builder, value any) error {
	if weigh(value, maxSize-out.Len()) < 0 {
		return ErrTooMuch
	}
	switch value.(type) {
	case nil:
		out.WriteString("null")
	case map[string]any, []any:
		document, err := json.Marshal(value)
		if err != nil {
			return errUnsuitable
		}
		out.Write(document)
	default:
		fmt.Fprint(out, value)
	}
	return nil
}
