// Package ignore determines the fields of an object on a target for other clients: they are written at the creation
// of the object, and neither compared nor written later.
//
//   - Fields listed by a provider configuration, see ParseRules.
//   - An injected CA bundle, see Bundles.
//   - The replicas of an object scaled by a HorizontalPodAutoscaler, see Autoscalers.
package ignore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Pointer is the path of a field: names of fields and indexes in lists, as in RFC 6901. One to an element of a list
// stands for the whole list. It is not empty.
type Pointer []string

// Rules are fields of objects by kind and name.
type Rules []Rule

// Rule is the fields of the objects of a kind, whatever their group. An empty Name stands for all names.
type Rule struct {
	Kind, Name string
	Pointers   []Pointer
}

// For returns the fields of an object.
func (r Rules) For(kind, name string) []Pointer {
	var all []Pointer
	for _, rule := range r {
		if rule.Kind == kind && (rule.Name == "" || rule.Name == name) {
			all = append(all, rule.Pointers...)
		}
	}
	return all
}

// identity are the fields with the identity of an object.
var identity = []string{"", "/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace"}

// ParseRules returns the rules of a provider configuration at a path, or all their problems.
func ParseRules(documents []managedresource.IgnoreDifferences, path *field.Path) (Rules, field.ErrorList) {
	var rules Rules
	var problems field.ErrorList
	for i, document := range documents {
		at := path.Index(i)
		if document.Kind == "" {
			problems = append(problems, field.Required(at.Child("kind"), "expected the kind of the objects"))
		}
		if len(document.JSONPointers) == 0 {
			problems = append(problems, field.Required(at.Child("jsonPointers"), "expected at least one field"))
		}
		rule := Rule{Kind: document.Kind, Name: document.Name}
		for n, text := range document.JSONPointers {
			pointer, err := parse(text)
			if err != nil {
				problems = append(problems, field.Invalid(at.Child("jsonPointers").Index(n), text, err.Error()))
				continue
			}
			rule.Pointers = append(rule.Pointers, pointer)
		}
		rules = append(rules, rule)
	}
	return rules, problems
}

func parse(text string) (Pointer, error) {
	switch {
	case slices.Contains(identity, text):
		return nil, fmt.Errorf("it names the object; expected a field in it, such as /spec/replicas")
	case !strings.HasPrefix(text, "/"):
		return nil, fmt.Errorf("expected a JSON pointer, which begins with a slash, such as /spec/replicas")
	}
	names := strings.Split(text[1:], "/")
	for i, name := range names {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(name), "~") {
			return nil, fmt.Errorf("expected ~0 for ~ and ~1 for / in a name, but found another ~")
		}
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	}
	return names, nil
}

// Leave sets a field of wanted to its value in live: it is removed if live lacks it. Named elements of lists
// correspond by name, others by place; an element without a counterpart is new, and stays as wanted.
func Leave(wanted, live map[string]any, p Pointer) {
	walk(wanted, live, p, func(to, from map[string]any, name string) {
		if value, ok := from[name]; ok {
			to[name] = runtime.DeepCopyJSONValue(value)
			return
		}
		delete(to, name)
	})
}

// Remove removes a field.
func Remove(fields map[string]any, p Pointer) {
	walk(fields, fields, p, func(to, _ map[string]any, name string) { delete(to, name) })
}

// In returns a field of wanted as a field of live: named elements of lists may be in other places there.
func In(wanted, live map[string]any, p Pointer) Pointer {
	at := slices.Clone(p)
	var w, l any = wanted, live
	for i, name := range p {
		if list, isList := w.([]any); isList {
			if i == len(p)-1 {
				return at[:i]
			}
			element, counterpart := elementsAt(list, l, name)
			at[i] = strconv.Itoa(counterpart)
			w, l = element, indexed(l, counterpart)
			continue
		}
		w, l = child(w, name), child(l, name)
	}
	return at
}

// walk calls do with the maps of wanted and live with the field, or with a place for it.
func walk(wanted, live any, p Pointer, do func(to, from map[string]any, name string)) {
	name, rest := p[0], p[1:]
	if list, isList := wanted.([]any); isList {
		element, counterpart := elementsAt(list, live, name)
		if from := indexed(live, counterpart); from != nil && len(rest) > 0 {
			walk(element, from, rest, do)
		}
		return
	}
	to, isMap := wanted.(map[string]any)
	if !isMap {
		return
	}
	from, _ := live.(map[string]any)
	_, holdsList := to[name].([]any)
	if len(rest) == 0 || holdsList && len(rest) == 1 {
		do(to, from, name)
		return
	}
	if to[name] == nil && from[name] != nil {
		inner := map[string]any{}
		if walk(inner, from[name], rest, do); len(inner) > 0 {
			to[name] = inner
		}
		return
	}
	walk(to[name], from[name], rest, do)
}

// elementsAt returns the element of a list at an index, and the index of its counterpart in another list; -1 for
// none.
func elementsAt(list []any, live any, index string) (element any, counterpart int) {
	n, err := strconv.Atoi(index)
	if err != nil || n < 0 || n >= len(list) {
		return nil, -1
	}
	name, _ := child(list[n], "name").(string)
	if name == "" {
		return list[n], n
	}
	others, _ := live.([]any)
	return list[n], slices.IndexFunc(others, func(other any) bool { return child(other, "name") == name })
}

func indexed(list any, n int) any {
	elements, _ := list.([]any)
	if n < 0 || n >= len(elements) {
		return nil
	}
	return elements[n]
}

// child returns a field of a map; nil if there is none.
func child(value any, path ...string) any {
	for _, name := range path {
		fields, _ := value.(map[string]any)
		value = fields[name]
	}
	return value
}
