package v1alpha1

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConditionKeepsUnknownFields(t *testing.T) {
	const document = `{"type":"Foreign","status":"True","lastTransitionTime":"2021-04-15T12:10:51Z",
		"lastUpdateTime":"2021-04-15T12:10:51Z",
		"reason":"R","message":"m","codes":["ERR_TIMEOUT"],"observedGeneration":9007199254740993,"future":{"deep":[1,null]}}`
	var condition Condition
	if err := json.Unmarshal([]byte(document), &condition); err != nil {
		t.Fatal(err)
	}
	if condition.Type != "Foreign" || len(condition.Unknown) != 2 {
		t.Errorf("expected the known fields to be read and two to be kept, but found %+v", condition)
	}
	out, err := json.Marshal(condition.DeepCopy())
	var want, got map[string]json.RawMessage
	if err := errors.Join(err, json.Unmarshal([]byte(document), &want), json.Unmarshal(out, &got)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Every field of the type is one that UnmarshalJSON takes for known.
func TestConditionKnowsItsFields(t *testing.T) {
	fields := map[string]any{}
	for field := range reflect.TypeFor[Condition]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "-" {
			fields[name] = nil
		}
	}
	document, err := json.Marshal(fields)
	var condition Condition
	if err := errors.Join(err, json.Unmarshal(document, &condition)); err != nil || len(condition.Unknown) != 0 {
		t.Errorf("these fields are known: %v (%v)", condition.Unknown, err)
	}
}
