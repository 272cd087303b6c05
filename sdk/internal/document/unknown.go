package document

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
)

// unknown holds the fields of a document without a place in a Go type.
type unknown struct {
	fields  map[string]any      // of an object itself
	below   map[string]*unknown // of the values of its other fields
	entries map[string]*unknown // of the entries of a list, by their identity
}

// unknownFields returns the fields of a value without a place in the type; nil for none. A json.Unmarshaler has them
// all.
func unknownFields(value any, t reflect.Type) *unknown {
	for t.Kind() == reflect.Pointer && !readsItself(t) {
		t = t.Elem()
	}
	out := &unknown{map[string]any{}, map[string]*unknown{}, map[string]*unknown{}}
	object, _ := value.(map[string]any)
	list, _ := value.([]any)
	switch {
	case readsItself(t):
	case t.Kind() == reflect.Struct:
		known := map[string]reflect.Type{} // by names in lower case
		for name, field := range fieldsOf(t) {
			known[strings.ToLower(name)] = field
		}
		for name, below := range object {
			if field, ok := known[strings.ToLower(name)]; ok {
				out.below[name] = unknownFields(below, field)
			} else {
				out.fields[name] = below
			}
		}
	case t.Kind() == reflect.Map:
		for name, below := range object {
			out.below[name] = unknownFields(below, t.Elem())
		}
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		for _, entry := range list {
			if id := identity(entry); id != "" {
				out.entries[id] = unknownFields(entry, t.Elem())
			}
		}
	}
	isNil := func(_ string, u *unknown) bool { return u == nil }
	maps.DeleteFunc(out.below, isNil)
	maps.DeleteFunc(out.entries, isNil)
	if len(out.fields)+len(out.below)+len(out.entries) == 0 {
		return nil
	}
	return out
}

func readsItself(t reflect.Type) bool {
	unmarshaler := reflect.TypeFor[json.Unmarshaler]()
	return t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler)
}

// HasField reports whether a struct has a field with a name in JSON.
func HasField(t reflect.Type, name string) bool {
	_, ok := fieldsOf(t)[name]
	return ok
}

// fieldsOf returns the types of the fields of a struct by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields, own := map[string]reflect.Type{}, map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		embedded := field.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case name == "-":
		case field.Anonymous && name == "" && embedded.Kind() == reflect.Struct:
			maps.Copy(fields, fieldsOf(embedded))
		case field.IsExported():
			own[cmp.Or(name, field.Name)] = field.Type
		}
	}
	maps.Copy(fields, own) // they hide those of embedded structs
	return fields
}

// identity identifies an entry of a list by its object; empty for an entry without a name.
func identity(entry any) string {
	object := asObject(entry)
	if resource := asObject(object["resource"]); resource != nil {
		object = resource
	}
	name, _ := object["name"].(string)
	if name == "" {
		return ""
	}
	return fmt.Sprintf("%q %q %q %q", object["apiVersion"], object["kind"], object["namespace"], name)
}

// restore adds the fields to a value of the type.
func (u *unknown) restore(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range u.fields {
			if _, found := value[name]; !found {
				value[name] = field
			}
		}
		for name, below := range u.below {
			below.restore(value[name])
		}
	case []any:
		for _, entry := range value {
			if below := u.entries[identity(entry)]; below != nil {
				below.restore(entry)
			}
		}
	}
}
