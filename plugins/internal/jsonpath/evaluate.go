package jsonpath

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// errUnsuitable is the error for a path unsuitable for an object. It has no reason, because reasons would quote the
// object.
var errUnsuitable = errors.New("the path does not suit the object")

// evaluator follows paths through an object as long as it has steps left. It finds nothing more once err is set.
type evaluator struct {
	left int
	err  error
}

// spend returns false if the steps are too many, or if there was an error before.
func (e *evaluator) spend(steps int) bool {
	if e.left -= steps; e.left < 0 {
		e.fail(ErrTooMuch)
	}
	return e.err == nil
}

func (e *evaluator) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// walk follows steps from each of the values.
func (e *evaluator) walk(in []any, steps []jsonpath.Node) []any {
	for _, step := range steps {
		out := e.step(in, step)
		if !e.spend(1 + len(in) + len(out)) {
			return nil
		}
		in = out
	}
	return in
}

func (e *evaluator) step(in []any, step jsonpath.Node) (out []any) {
	switch step := step.(type) {
	case *jsonpath.TextNode:
		return []any{step.Text}
	case *jsonpath.ListNode:
		return e.walk(in, step.Nodes)
	case *jsonpath.UnionNode:
		for _, list := range step.Nodes {
			out = append(out, e.walk(in, list.Nodes)...)
		}
		return out
	case *jsonpath.ArrayNode:
		if by := step.Params[2]; by.Known && by.Value <= 0 {
			e.fail(errUnsuitable)
		}
	}
	for _, value := range in {
		if e.err != nil {
			return nil
		}
		out = e.stepFrom(value, step, out)
	}
	return out
}

// stepFrom adds the results of a step from one value to out.
func (e *evaluator) stepFrom(value any, step jsonpath.Node, out []any) []any {
	switch step := step.(type) {
	case *jsonpath.IntNode:
		return append(out, int64(step.Value))
	case *jsonpath.FloatNode:
		return append(out, step.Value)
	case *jsonpath.BoolNode:
		return append(out, step.Value)
	case *jsonpath.FieldNode:
		object, _ := value.(map[string]any)
		if inner, ok := object[step.Value]; ok {
			out = append(out, inner)
		}
		return out
	case *jsonpath.ArrayNode:
		return e.elements(value, step.Params, out)
	case *jsonpath.FilterNode:
		return e.filter(value, step, out)
	case *jsonpath.WildcardNode:
		inner := children(value)
		e.spend(len(inner))
		return append(out, inner...)
	case *jsonpath.RecursiveNode:
		return e.containers(value, out)
	default:
		e.fail(errUnsuitable)
		return nil
	}
}

// children returns the values of a map, by their keys, or the elements of a list.
func children(value any) []any {
	switch value := value.(type) {
	case map[string]any:
		out := make([]any, 0, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			out = append(out, value[key])
		}
		return out
	case []any:
		return value
	default:
		return nil
	}
}

// containers adds the value and all within it, if they are maps or lists and not empty, each before its inner ones.
func (e *evaluator) containers(value any, out []any) []any {
	inner := children(value)
	if !e.spend(1+len(inner)) || len(inner) == 0 {
		return out
	}
	out = append(out, value)
	for _, value := range inner {
		out = e.containers(value, out)
	}
	return out
}

// elements adds the part [from:to:step] of a list. A range beyond the list is unsuitable. The step is positive.
func (e *evaluator) elements(value any, params [3]jsonpath.ParamsEntry, out []any) []any {
	list, ok := value.([]any)
	from, to := bounds(params, len(list))
	if value == nil || (ok && from == to) {
		return out
	}
	if !ok || from < 0 || from >= len(list) || to < from || to > len(list) {
		e.fail(errUnsuitable)
		return nil
	}
	step := 1
	if params[2].Known {
		step = params[2].Value
	}
	// Unlike an index beyond the end, the length of the rest cannot overflow.
	for rest := list[from:to]; len(rest) > 0; rest = rest[min(step, len(rest)):] {
		out = append(out, rest[0])
	}
	e.spend(1 + (to-from)/step)
	return out
}

func bounds(params [3]jsonpath.ParamsEntry, length int) (from, to int) {
	if params[0].Known {
		from = params[0].Value
	}
	if from < 0 {
		from += length
	}
	to = length
	if params[1].Known {
		to = params[1].Value
		if to < 0 || (to == 0 && params[1].Derived) {
			to += length
		}
	}
	return from, to
}

// filter adds the elements of a list if they meet a condition.
func (e *evaluator) filter(value any, condition *jsonpath.FilterNode, out []any) []any {
	list, ok := value.([]any)
	if !ok {
		e.fail(errUnsuitable)
	}
	for _, element := range list {
		if e.spend(1) && e.meets(element, condition) {
			out = append(out, element)
		}
	}
	return out
}

func (e *evaluator) meets(element any, condition *jsonpath.FilterNode) bool {
	lefts := e.walk([]any{element}, condition.Left.Nodes)
	if condition.Operator == "exists" {
		if errors.Is(e.err, errUnsuitable) { // then it does not exist
			e.err = nil
		}
		return len(lefts) > 0
	}
	rights := e.walk([]any{element}, condition.Right.Nodes)
	if len(lefts) == 0 || len(rights) == 0 {
		return false
	}
	if len(lefts) == 1 && len(rights) == 1 {
		if meets, ok := compare(lefts[0], rights[0], condition.Operator); ok {
			return meets
		}
	}
	e.fail(errUnsuitable)
	return false
}

// compare compares texts, numbers or truth values, but only of the same type.
func compare(left, right any, operator string) (meets, ok bool) {
	var order int
	switch l := left.(type) {
	case string:
		r, ok := right.(string)
		if !ok {
			return false, false
		}
		order = strings.Compare(l, r)
	case bool:
		r, ok := right.(bool)
		return (l == r) == (operator == "=="), ok && (operator == "==" || operator == "!=")
	default:
		if order, ok = compareNumbers(left, right); !ok {
			return false, false
		}
	}
	switch operator {
	case "==":
		return order == 0, true
	case "!=":
		return order != 0, true
	case "<":
		return order < 0, true
	case "<=":
		return order <= 0, true
	case ">":
		return order > 0, true
	case ">=":
		return order >= 0, true
	default:
		return false, false
	}
}
