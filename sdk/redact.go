package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
)

// What stands in the place of a value that is hidden, as kubectl has it. That it is the same on both sides, and so nothing else, is all that
// can be told of the value itself.
const (
	hidden       = "***"
	hiddenBefore = "*** (before)"
	hiddenAfter  = "*** (after)"
)

// copies are the annotations in which tools keep a copy of the object.
var copies = []string{
	"kubectl.kubernetes.io/last-applied-configuration",
	"kapp.k14s.io/original",
	"objectset.rio.cattle.io/applied",
	"banzaicloud.com/last-applied",
}

// hideSecrets hides what Secrets hold in the two states of an object: the values of data and stringData of each Secret, wherever it is in the
// object, such as in a List, and annotations with a copy of an object. Either state may be empty, and stays so. Keys stay, and a value is shown
// as hidden, or as hiddenBefore and hiddenAfter if it is another one in the other state. Where only one state is a Secret, the same
// fields of the other are hidden, too. The error, of a state that is no JSON object, holds nothing of it.
func hideSecrets(before, after json.RawMessage) (shownBefore, shownAfter []byte, err error) {
	b, err := decodeState(before)
	if err != nil {
		return nil, nil, fmt.Errorf("before: %w", err)
	}
	a, err := decodeState(after)
	if err != nil {
		return nil, nil, fmt.Errorf("after: %w", err)
	}
	hide(b, a, false)
	if shownBefore, err = encodeState(b); err != nil {
		return nil, nil, fmt.Errorf("before: %w", err)
	}
	if shownAfter, err = encodeState(a); err != nil {
		return nil, nil, fmt.Errorf("after: %w", err)
	}
	return shownBefore, shownAfter, nil
}

// decodeState reads a state, without a loss of digits; nil if there is none.
func decodeState(document json.RawMessage) (map[string]any, error) {
	if len(document) == 0 {
		return nil, nil //nolint:nilnil // no state is an ordinary case and no error
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var state map[string]any
	err := decoder.Decode(&state)
	if _, trailing := decoder.Token(); err != nil || state == nil || !errors.Is(trailing, io.EOF) {
		return nil, errors.New("expected a JSON object, or nothing")
	}
	return state, nil
}

func encodeState(state map[string]any) ([]byte, error) {
	if state == nil {
		return nil, nil
	}
	out := &bytes.Buffer{}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(state); err != nil {
		return nil, errors.New("it cannot be written as JSON")
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// hide hides in two values that are in the same place. secret: this place is for a Secret, even if it does not say so.
func hide(before, after any, secret bool) {
	hideInObjects(asObject(before), asObject(after), secret)
	b, a := asList(before), asList(after)
	for i := range max(len(b), len(a)) {
		hide(at(b, i), at(a, i), secret)
	}
}

func hideInObjects(before, after map[string]any, secret bool) {
	if secret || hasKind(before, "Secret") || hasKind(after, "Secret") {
		hideField(before, after, "data")
		hideField(before, after, "stringData")
	}
	hideCopies(asObject(before["metadata"]), asObject(after["metadata"]))
	secrets := hasKind(before, "SecretList") || hasKind(after, "SecretList")
	for _, key := range keys(before, after) {
		hide(before[key], after[key], secrets && key == "items")
	}
}

// hideField hides the values of a field that holds values by key. What has another form is hidden as a whole.
func hideField(before, after map[string]any, field string) {
	b, a := asObject(before[field]), asObject(after[field])
	for _, key := range keys(b, a) {
		hideValue(b, a, key)
	}
	if b != nil {
		before = nil
	}
	if a != nil {
		after = nil
	}
	hideValue(before, after, field)
}

func hideCopies(before, after map[string]any) {
	for _, name := range copies {
		hideValue(asObject(before["annotations"]), asObject(after["annotations"]), name)
	}
}

// hideValue hides what two objects have under a key.
func hideValue(before, after map[string]any, key string) {
	b, inBefore := before[key]
	a, inAfter := after[key]
	shownBefore, shownAfter := hidden, hidden
	if inBefore && inAfter && !reflect.DeepEqual(b, a) {
		shownBefore, shownAfter = hiddenBefore, hiddenAfter
	}
	if inBefore {
		before[key] = shownBefore
	}
	if inAfter {
		after[key] = shownAfter
	}
}

func hasKind(object map[string]any, kind string) bool { return object["kind"] == kind }

// asObject returns a value that is an object; nil for any other.
func asObject(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

// asList returns a value that is a list; nil for any other.
func asList(value any) []any {
	list, _ := value.([]any)
	return list
}

// at returns an element of a list; nil beyond its end.
func at(list []any, i int) any {
	if i >= len(list) {
		return nil
	}
	return list[i]
}

// keys are those of both objects, each once and in order.
func keys(a, b map[string]any) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
