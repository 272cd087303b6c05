package jsonpath

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"k8s.io/client-go/util/jsonpath"
)

// errUnsuitable says that a path does not suit an object. Nobody is told why: the reasons would quote the object.
var errUnsuitable = errors.New("the path does not suit the object")

// evaluator follows paths through an object as long as it has steps left.
type evaluator struct{ left int }

func (e *evaluator) spend(steps int) error {
	if e.left -= steps; e.left < 0 {
		return ErrTooMuch
	}
	return nil
}

// walk follows steps from each of the values.
func (e *evaluator) walk(in []any, steps []jsonpath.Node) ([]any, error) {
	for _, step := range steps {
		out, err := e.step(in, step)
		if err != nil {
			return nil, err
		}
		if err := e.spend(1 + len(in) + len(out)); err != nil {
			return nil, err
		}
		in = out
	}
	return in, nil
}

func (e *evaluator) step(in []any, step jsonpath.Node) ([]any, error) {
	switch step := step.(type) {
	case *jsonpath.TextNode:
		return []any{step.Text}, nil
	case *jsonpath.IntNode:
		return slices.Repeat([]any{int64(step.Value)}, len(in)), nil
	case *jsonpath.FloatNode:
		return slices.Repeat([]any{step.Value}, len(in)), nil
	case *jsonpath.BoolNode:
		return slices.Repeat([]any{step.Value}, len(in)), nil
	case *jsonpath.ListNode:
		return e.walk(in, step.Nodes)
	case *jsonpath.FieldNode:
		return fields(in, step.Value), nil
	case *jsonpath.ArrayNode:
		return e.elements(in, step.Params)
	case *jsonpath.FilterNode:
		return e.filter(in, step)
	case *jsonpath.WildcardNode:
		return e.children(in)
	case *jsonpath.RecursiveNode:
		return e.containers(nil, in)
	case *jsonpath.UnionNode:
		return e.union(in, step.Nodes)
	default:
		return nil, errUnsuitable
	}
}

func fields(in []any, name string) []any {
	var out []any
	for _, value := range in {
		if object, ok := value.(map[string]any); ok {
			if inner, ok := object[name]; ok {
				out = append(out, inner)
			}
		}
	}
	return out
}

// children returns the values of maps, by their keys, and the elements of lists.
func (e *evaluator) children(in []any) ([]any, error) {
	var out []any
	for _, value := range in {
		inner := childrenOf(value)
		if err := e.spend(len(inner)); err != nil {
			return nil, err
		}
		out = append(out, inner...)
	}
	return out, nil
}

func childrenOf(value any) []any {
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

// containers adds all maps and lists that are not empty, each before those within it.
func (e *evaluator) containers(out, in []any) ([]any, error) {
	for _, value := range in {
		inner := childrenOf(value)
		if err := e.spend(1 + len(inner)); err != nil {
			return nil, err
		}
		if len(inner) == 0 {
			continue
		}
		var err error
		if out, err = e.containers(append(out, value), inner); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e *evaluator) union(in []any, lists []*jsonpath.ListNode) ([]any, error) {
	var out []any
	for _, list := range lists {
		values, err := e.walk(in, list.Nodes)
		if err != nil {
			return nil, err
		}
		out = append(out, values...)
	}
	return out, nil
}

// elements returns the parts [from:to:step] of lists. What is out of range does not suit.
func (e *evaluator) elements(in []any, params [3]jsonpath.ParamsEntry) ([]any, error) {
	step := 1
	if params[2].Known {
		step = params[2].Value
	}
	if step <= 0 {
		return nil, errUnsuitable
	}
	var out []any
	for _, value := range in {
		if value == nil {
			continue
		}
		list, ok := value.([]any)
		if !ok {
			return nil, errUnsuitable
		}
		from, to := bounds(params, len(list))
		if from == to {
			continue
		}
		if from < 0 || from >= len(list) || to < from || to > len(list) {
			return nil, errUnsuitable
		}
		if err := e.spend(1 + (to-from)/step); err != nil {
			return nil, err
		}
		// Counting down what is left cannot overflow, as an index beyond the end could.
		for rest := list[from:to]; len(rest) > 0; rest = rest[min(step, len(rest)):] {
			out = append(out, rest[0])
		}
	}
	return out, nil
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

// filter returns the elements of lists that meet a condition.
func (e *evaluator) filter(in []any, condition *jsonpath.FilterNode) ([]any, error) {
	var out []any
	for _, value := range in {
		list, ok := value.([]any)
		if !ok {
			return nil, errUnsuitable
		}
		for _, element := range list {
			ok, err := e.meets(element, condition)
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, element)
			}
		}
	}
	return out, nil
}

func (e *evaluator) meets(element any, condition *jsonpath.FilterNode) (bool, error) {
	if err := e.spend(1); err != nil {
		return false, err
	}
	lefts, err := e.walk([]any{element}, condition.Left.Nodes)
	if condition.Operator == "exists" {
		if errors.Is(err, errUnsuitable) {
			return false, nil
		}
		return len(lefts) > 0, err
	}
	if err != nil {
		return false, err
	}
	rights, err := e.walk([]any{element}, condition.Right.Nodes)
	switch {
	case err != nil:
		return false, err
	case len(lefts) == 0 || len(rights) == 0:
		return false, nil
	case len(lefts) > 1 || len(rights) > 1:
		return false, errUnsuitable
	}
	return compare(lefts[0], rights[0], condition.Operator)
}

// compare compares texts, numbers or truth values, but none with one of another kind.
func compare(left, right any, operator string) (bool, error) {
	order, ordered := 0, true
	switch l := left.(type) {
	case string:
		r, ok := right.(string)
		if !ok {
			return false, errUnsuitable
		}
		order = cmp.Compare(l, r)
	case bool:
		r, ok := right.(bool)
		if !ok {
			return false, errUnsuitable
		}
		ordered = false
		if l != r {
			order = 1
		}
	default:
		var ok bool
		if order, ok = CompareNumbers(left, right); !ok {
			return false, errUnsuitable
		}
	}
	switch {
	case operator == "==":
		return order == 0, nil
	case operator == "!=":
		return order != 0, nil
	case operator == "<" && ordered:
		return order < 0, nil
	case operator == "<=" && ordered:
		return order <= 0, nil
	case operator == ">" && ordered:
		return order > 0, nil
	case operator == ">=" && ordered:
		return order >= 0, nil
	default:
		return false, errUnsuitable
	}
}
