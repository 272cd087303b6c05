package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// decode fills a struct from a document and notes everything that does not fit. Unlike the decoders of the library it goes on
// after a value of the wrong type. What the document leaves out, or says null for, stays as it is.
func decode(root *yaml.Node, into reflect.Value, found *problems) {
	spellSwitches(root)
	check(root, nil, 0, found)
	d := &decoder{problems: found, tree: len(found.list) == 0}
	d.value(root, into, nil)
}

// switches are the fields with a value off. A * stands for any key.
var switches = [][]string{
	{"locking"},
	{"verification"},
	{"plugins", "*", "confinement", "mode"},
}

// spellSwitches puts quotes around the values of switches if they are on or off, and spells out what true and false stand for.
// These are the words that parsers take for each other, here with one meaning to all of them.
func spellSwitches(root *yaml.Node) {
	for _, path := range switches {
		visit(root, path, spellSwitch)
	}
}

func spellSwitch(value *yaml.Node) {
	switch {
	case value.Kind != yaml.ScalarNode:
	case isOldBool(value):
		value.Style |= yaml.DoubleQuotedStyle
	case value.ShortTag() == tagBool:
		spelled := "off"
		if strings.EqualFold(value.Value, "true") {
			spelled = "on"
		}
		value.Tag, value.Value = tagText, spelled
		value.Style |= yaml.DoubleQuotedStyle
	}
}

// visit calls do with each value at a path of keys. Where there are no objects there is none.
func visit(node *yaml.Node, path []string, do func(*yaml.Node)) {
	if len(path) == 0 {
		do(node)
		return
	}
	if node.Kind != yaml.MappingNode {
		return
	}
	for key, value := range pairs(node) {
		if path[0] == "*" || path[0] == key.Value {
			visit(value, path[1:], do)
		}
	}
}

type decoder struct {
	*problems
	// tree: the document is a plain, finite tree. Otherwise it is read only for what else is wrong with it.
	tree bool
}

var (
	rawType      = reflect.TypeFor[json.RawMessage]()
	durationType = reflect.TypeFor[metav1.Duration]()
	bytesType    = reflect.TypeFor[Bytes]()
)

// value decodes one value into a type of HostConfiguration. A type that it does not know is reported as a mistake of ours.
func (d *decoder) value(node *yaml.Node, into reflect.Value, path *field.Path) {
	switch {
	case node.Kind == yaml.AliasNode || isNull(node):
	case into.Type() == rawType:
		d.raw(node, into, path)
	case into.Type() == durationType:
		d.duration(node, into, path)
	case into.Type() == bytesType:
		d.bytes(node, into, path)
	case into.Kind() == reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		d.value(node, into.Elem(), path)
	case into.Kind() == reflect.Struct:
		d.object(node, into, path)
	case into.Kind() == reflect.Map:
		d.dictionary(node, into, path)
	case into.Kind() == reflect.Slice:
		d.list(node, into, path)
	default:
		d.scalar(node, into, path)
	}
}

func (d *decoder) object(node *yaml.Node, into reflect.Value, path *field.Path) {
	if node.Kind != yaml.MappingNode {
		d.at(path, "expected an object, but found %s", describe(node))
		return
	}
	fields := map[string]int{}
	names := make([]string, 0, into.NumField())
	for i := range into.NumField() {
		name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = i
		names = append(names, name)
	}
	for key, value := range pairs(node) {
		if !isKey(key) {
			continue // check complains
		}
		i, known := fields[key.Value]
		if !known {
			d.at(child(path, key.Value), "unknown field; expected one of %s", strings.Join(names, ", "))
			continue
		}
		d.value(value, into.Field(i), child(path, key.Value))
	}
}

func (d *decoder) dictionary(node *yaml.Node, into reflect.Value, path *field.Path) {
	if node.Kind != yaml.MappingNode {
		d.at(path, "expected an object, but found %s", describe(node))
		return
	}
	into.Set(reflect.MakeMap(into.Type()))
	for key, value := range pairs(node) {
		if !isKey(key) {
			continue // check complains
		}
		item := reflect.New(into.Type().Elem()).Elem()
		d.value(value, item, child(path, key.Value))
		into.SetMapIndex(reflect.ValueOf(key.Value), item)
	}
}

func (d *decoder) list(node *yaml.Node, into reflect.Value, path *field.Path) {
	if node.Kind != yaml.SequenceNode {
		d.at(path, "expected a list, but found %s", describe(node))
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content)))
	for i, item := range node.Content {
		// A dash with nothing behind it must not pass for an object without conditions, such as a selector that matches all.
		if isNull(item) {
			d.at(path.Index(i), "expected a value, but found nothing")
			continue
		}
		d.value(item, into.Index(i), path.Index(i))
	}
}

func (d *decoder) scalar(node *yaml.Node, into reflect.Value, path *field.Path) {
	switch into.Kind() {
	case reflect.String:
		if !isText(node) {
			d.at(path, "expected a text, but found %s%s", describe(node), quotesHelp(node))
			return
		}
		into.SetString(node.Value)
	case reflect.Bool:
		truth, err := strconv.ParseBool(strings.ToLower(node.Value))
		if node.Kind != yaml.ScalarNode || node.ShortTag() != tagBool || err != nil {
			d.at(path, "expected true or false, but found %s", describe(node))
			return
		}
		into.SetBool(truth)
	case reflect.Int:
		n, err := strconv.ParseInt(number(node), 10, strconv.IntSize)
		if err != nil {
			d.at(path, "expected a whole number, but found %s", describe(node))
			return
		}
		into.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(number(node), 64)
		if err != nil || math.IsInf(n, 0) {
			d.at(path, "expected a number, but found %s", describe(node))
			return
		}
		into.SetFloat(n)
	default:
		d.at(path, "this host cannot read a field of type %s; please report it", into.Type())
	}
}

func (d *decoder) duration(node *yaml.Node, into reflect.Value, path *field.Path) {
	const expected = "expected a duration such as 30s or 5m, but found %s"
	if !isText(node) || len(node.Value) > maxDuration {
		d.at(path, expected, describe(node))
		return
	}
	span, err := time.ParseDuration(node.Value)
	if err != nil {
		d.at(path, expected, quote(node.Value))
		return
	}
	into.Set(reflect.ValueOf(metav1.Duration{Duration: span}))
}

func (d *decoder) bytes(node *yaml.Node, into reflect.Value, path *field.Path) {
	if !isText(node) {
		d.at(path, "expected an amount of memory such as 512Mi, but found %s", describe(node))
		return
	}
	var amount Bytes
	if err := amount.UnmarshalText([]byte(node.Value)); err != nil {
		d.at(path, "%s", err.Error())
		return
	}
	into.Set(reflect.ValueOf(amount))
}

// raw keeps an object as JSON.
func (d *decoder) raw(node *yaml.Node, into reflect.Value, path *field.Path) {
	if node.Kind != yaml.MappingNode {
		d.at(path, "expected an object with the fields that the plugin documents") // not what was found: it may be a password
		return
	}
	if !d.tree {
		return
	}
	var out bytes.Buffer
	if err := writeJSON(&out, node); err != nil {
		d.at(path, "%s", err.Error())
		return
	}
	into.SetBytes(out.Bytes())
}

// writeJSON writes a checked tree as JSON, in the order and with the digits that it has.
func writeJSON(out *bytes.Buffer, node *yaml.Node) error {
	switch {
	case node.Kind == yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range node.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeJSON(out, item); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case node.Kind == yaml.MappingNode:
		out.WriteByte('{')
		for i, item := range node.Content { // keys and values follow each other
			if i > 0 {
				out.WriteByte(",:"[i%2])
			}
			if err := writeJSON(out, item); err != nil {
				return err
			}
		}
		out.WriteByte('}')
	case isNull(node):
		out.WriteString("null")
	case node.ShortTag() == tagBool:
		out.WriteString(strings.ToLower(node.Value))
	case isText(node):
		return writeText(out, node.Value)
	default: // a number that JSON knows
		out.WriteString(node.Value)
	}
	return nil
}

func writeText(out *bytes.Buffer, text string) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return fmt.Errorf("write as JSON: %w", err)
	}
	out.Truncate(out.Len() - 1) // the encoder ends a line
	return nil
}

// isText tells whether a node is a text. A date is one: nothing that is configured is a time.
func isText(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && (node.ShortTag() == tagText || node.ShortTag() == tagTime)
}

// number returns the digits of a number as JSON writes it; nothing for other values.
func number(node *yaml.Node) string {
	tag := node.ShortTag()
	if node.Kind != yaml.ScalarNode || (tag != tagInt && tag != tagFloat) || !json.Valid([]byte(node.Value)) {
		return ""
	}
	return node.Value
}

func quotesHelp(node *yaml.Node) string {
	if node.Kind == yaml.ScalarNode {
		return " (quotes make it a text)"
	}
	return ""
}
