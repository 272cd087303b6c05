package jsonpath

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// check refuses mistakes the parser lets pass: words without a meaning, and ends of nothing.
func check(nodes []jsonpath.Node) error {
	depth := 0
	for _, node := range nodes {
		list, ok := node.(*jsonpath.ListNode)
		if !ok {
			if _, ok := node.(*jsonpath.TextNode); !ok {
				return fmt.Errorf("%s outside of braces", node)
			}
			continue
		}
		word, steps := keyword(list)
		if err := checkSteps(steps); err != nil {
			return err
		}
		switch {
		case word == "range":
			depth++
		case word == "end" && depth > 0 && len(steps) == 0:
			depth--
		case word == "end":
			return errors.New("{end} has nothing to end")
		case word != "":
			return unknown(word)
		}
	}
	return nil
}

// keyword takes the word at the beginning of an expression from its steps; "" if there is none.
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

// checkSteps refuses words in the middle of an expression.
func checkSteps(steps []jsonpath.Node) error {
	for _, step := range steps {
		var inner []*jsonpath.ListNode
		switch step := step.(type) {
		case *jsonpath.IdentifierNode:
			return unknown(step.Name)
		case *jsonpath.FilterNode:
			inner = []*jsonpath.ListNode{step.Left, step.Right}
		case *jsonpath.UnionNode:
			inner = step.Nodes
		}
		for _, list := range inner {
			if err := checkSteps(list.Nodes); err != nil {
				return err
			}
		}
	}
	return nil
}

// splitRange returns the body of a range, and the rest after its end. A range without an end ends with the path.
func splitRange(nodes []jsonpath.Node) (body, rest []jsonpath.Node) {
	depth := 1
	for i, node := range nodes {
		list, ok := node.(*jsonpath.ListNode)
		if !ok {
			continue
		}
		switch word, _ := keyword(list); word {
		case "range":
			depth++
		case "end":
			if depth--; depth == 0 {
				return nodes[:i], nodes[i+1:]
			}
		}
	}
	return nodes, nil
}

// render writes the text of a path mixed with text. It returns the number of its written parts, with those of each
// round of a range.
func (e *evaluator) render(out *strings.Builder, in any, nodes []jsonpath.Node) (written int) {
	for len(nodes) > 0 && e.spend(1) {
		node := nodes[0]
		nodes = nodes[1:]
		if text, ok := node.(*jsonpath.TextNode); ok {
			out.WriteString(text.Text)
			written++
			continue
		}
		list, _ := node.(*jsonpath.ListNode) // check has found nothing else
		word, steps := keyword(list)
		values := e.walk([]any{in}, steps)
		if word == "range" {
			var body []jsonpath.Node
			body, nodes = splitRange(nodes)
			for _, value := range values {
				written += e.render(out, value, body)
			}
			continue
		}
		if isNothing(values) {
			e.fail(errUnsuitable)
		}
		written++
		e.write(out, values)
	}
	if out.Len() > maxSize {
		e.fail(ErrTooMuch)
	}
	return written
}

// write writes values as kubectl does: maps and lists as JSON, all else as it is.
func (e *evaluator) write(out *strings.Builder, values []any) {
	if weigh(values, maxSize-out.Len()) < 0 {
		e.fail(ErrTooMuch)
		return
	}
	// kubectl tells a null from a missing value by the kind of the element, so it must be one of a list.
	all := reflect.ValueOf(values)
	results := make([]reflect.Value, 0, len(values))
	for i := range values {
		results = append(results, all.Index(i))
	}
	if err := jsonpath.New("path").PrintResults(out, results); err != nil {
		e.fail(errUnsuitable)
	}
}
