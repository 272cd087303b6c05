package text

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		most int
		want string
	}{
		{"short", 5, "short"}, {"too long", 7, "too …"}, {"üü", 4, "üü"}, {"üüü", 5, "ü…"}, {"\xff", 5, "\uFFFD"},
	} {
		if got := Cut(tc.text, tc.most); got != tc.want {
			t.Errorf("%q in %d bytes: expected %q, but found %q", tc.text, tc.most, tc.want, got)
		}
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	const want = `a \x1b[31mred\r\n` + "ü\uFFFD"
	if got := Printable("a \x1b[31mred\r\nü\xff"); got != want {
		t.Errorf("expected %q, but found %q", want, got)
	}
}

// scalar has a text form of its own.
type scalar struct{}

func (*scalar) UnmarshalText([]byte) error {
	return &json.UnmarshalTypeError{Value: `"soon"`, Type: reflect.TypeFor[scalar]()}
}

func TestMismatch(t *testing.T) {
	t.Parallel()
	type document struct {
		Text   string            `json:"text"`
		Number float64           `json:"number"`
		Whole  int               `json:"whole"`
		Bytes  uint32            `json:"bytes"`
		Switch *bool             `json:"switch"`
		List   []string          `json:"list"`
		Object map[string]string `json:"object"`
		Inner  struct {
			Scalar scalar `json:"scalar"`
		} `json:"inner"`
	}
	expected := map[reflect.Type]string{reflect.TypeFor[scalar](): "a time such as now"}
	for text, want := range map[string]struct{ field, sentence string }{
		`[]`:                          {"", "expected an object, but found a list"},
		`{"text":8080}`:               {"text", "expected a text, but found a number; quotes make it a text"},
		`{"text":true}`:               {"text", "expected a text, but found true or false; quotes make it a text"},
		`{"text":{}}`:                 {"text", "expected a text, but found an object"},
		`{"number":"1"}`:              {"number", "expected a number, but found a text"},
		`{"whole":1.5}`:               {"whole", "expected a whole number, but found another number"},
		`{"bytes":-1}`:                {"bytes", "expected a whole number, but found another number"},
		`{"switch":"secret"}`:         {"switch", "expected true or false, but found a text"},
		`{"list":"secret"}`:           {"list", "expected a list, but found a text"},
		`{"object":[]}`:               {"object", "expected an object, but found a list"},
		`{"inner":{"scalar":1}}`:      {"inner.scalar", "expected a time such as now, but found a number"},
		`{"inner":{"scalar":"soon"}}`: {"inner.scalar", `expected a time such as now, but found "soon"`},
	} {
		var into document
		field, sentence, ok := Mismatch(json.Unmarshal([]byte(text), &into), expected)
		if !ok || field != want.field || sentence != want.sentence {
			t.Errorf("%s: expected %v, but found %q: %q", text, want, field, sentence)
		}
	}
	if _, _, ok := Mismatch(errors.New("another"), nil); ok {
		t.Error("expected no sentence about another error")
	}
}
