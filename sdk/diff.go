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

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// maxChangeObject bounds the name of what is changed, in bytes, as the host does.
const maxChangeObject = 1 << 10

// diffToWire describes how Diff ended. A change that cannot be passed on, such as one whose secrets cannot be found
// because it is no JSON, is the deployer's mistake, and none is passed on then.
func diffToWire(res *DiffResponse, err error) *deployerv1.DiffResponse {
	changes := &deployerv1.Changes{}
	if err == nil && res != nil {
		var errs []error
		for i, change := range res.Changes {
			wired, err := change.toWire()
			if err != nil {
				errs = append(errs, fmt.Errorf("change %d (%.64q): %w", i, change.Object, err))
			}
			changes.Changes = append(changes.Changes, wired)
		}
		err = internalProblem(errors.Join(errs...))
	}
	if err != nil {
		return &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Failed{Failed: failedToWire("Diff", err)}}
	}
	return &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Changes{Changes: changes}}
}

func (c *Change) toWire() (*deployerv1.Change, error) {
	if c.Object == "" || len(c.Object) > maxChangeObject {
		return nil, fmt.Errorf("expected a name of the object of 1 to %d bytes, but it has %d",
			maxChangeObject, len(c.Object))
	}
	if !slices.Contains(Actions(), c.Action) {
		return nil, fmt.Errorf("there is no action %q; expected one of %q", c.Action, Actions())
	}
	before, after, err := hideSecrets(c.Before, c.After)
	if err != nil {
		return nil, err
	}
	return &deployerv1.Change{
		Object: c.Object,
		Action: string(c.Action),
		Before: before,
		After:  after,
		Note:   c.Note,
	}, nil
}

// What stands in the place of a value that is hidden, as kubectl has it. That it is the same on both sides, and so
// nothing else, is all that can be told of the value itself.
const (
	hidden       = "***"
	hiddenBefore = "*** (before)"
	hiddenAfter  = "*** (after)"
)

// copies are the annotations in which tools keep a copy of the object.
func copies() []string {
	return []string{
		"kubectl.kubernetes.io/last-applied-configuration",
		"kapp.k14s.io/original",
		"objectset.rio.cattle.io/applied",
		"banzaicloud.com/last-applied",
	}
}

// hideSecrets hides what Secrets hold in the two states of an object: the values of data and stringData of each
// Secret, wherever it is in the object, such as in a List, and annotations with a copy of an object. Either state may
// be empty, and stays so. Keys stay, and a value is shown as hidden, or as hiddenBefore and hiddenAfter if it is
// another one in the other state. Where only one state is a Secret, the same fields of the other are hidden, too. The
// error, of a state that is no JSON object, holds nothing of it.
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

// asObject returns a value that is an object; nil for any other.
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

// keys are those of both objects, each once and in order.
func keys(a, b map[string]any) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
