package document

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

// The replacements of hidden values, as in kubectl. They show only whether the value is the same on both sides.
const (
	hidden       = "***"
	hiddenBefore = "*** (before)"
	hiddenAfter  = "*** (after)"
)

// copies are annotations with a copy of the object.
func copies() []string {
	return []string{
		"kubectl.kubernetes.io/last-applied-configuration",
		"kapp.k14s.io/original",
		"objectset.rio.cattle.io/applied",
		"banzaicloud.com/last-applied",
	}
}

// HideSecrets hides the contents of Secrets in the two states of an object: the values of data and stringData of each
// Secret, at any depth, such as in a List, and annotations with a copy of an object. An empty state stays empty. Keys
// stay; a value becomes hidden, or hiddenBefore and hiddenAfter if the states differ. If one state is a Secret, the
// same fields of the other are hidden, too. The error about a state other than a JSON object quotes nothing of it.
func HideSecrets(before, after json.RawMessage) (shownBefore, shownAfter []byte, err error) {
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

// hide hides in two values of the same place. secret: the place is for a Secret, even without a kind.
func hide(before, after any, secret bool) {
	hideInObjects(asObject(before), asObject(after), secret)
	b, _ := before.([]any)
	a, _ := after.([]any)
	for i := range max(len(b), len(a)) {
		hide(at(b, i), at(a, i), secret)
	}
}

func hideInObjects(before, after map[string]any, secret bool) {
	isOne := func(kind string) bool { return before["kind"] == kind || after["kind"] == kind }
	if secret || isOne("Secret") {
		hideField(before, after, "data")
		hideField(before, after, "stringData")
	}
	b, a := asObject(before["metadata"]), asObject(after["metadata"])
	for _, name := range copies() {
		hideValue(asObject(b["annotations"]), asObject(a["annotations"]), name)
	}
	for _, key := range keys(before, after) {
		hide(before[key], after[key], key == "items" && isOne("SecretList"))
	}
}

// hideField hides the values of a map, or a field of another form as a whole.
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

// hideValue hides the values of two objects under a key.
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

// asObject returns a value as an object; nil for any other value.
func asObject(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

// at returns an element of a list; nil beyond its end.
func at(list []any, i int) any {
	if i >= len(list) {
		return nil
	}
	return list[i]
}

// keys returns the keys of both objects, each once and in order.
func keys(a, b map[string]any) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
