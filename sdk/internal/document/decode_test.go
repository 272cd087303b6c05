package document

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// A document cannot keep the decoder busy for long.
func TestDecodeManyWrongTypes(t *testing.T) {
	t.Parallel()
	var into []string
	_, wrong, err := Decode([]byte("["+strings.Repeat("1,", 10000)+"1]"), &into)
	if err != nil || len(wrong) != maxWrong {
		t.Errorf("expected %d values of a wrong type, but found %d, and %v", maxWrong, len(wrong), err)
	}
}

// A value that its own type refuses has its path, and hides no other problem.
func TestDecodeRefused(t *testing.T) {
	t.Parallel()
	type window struct {
		From  time.Time        `json:"from"`
		Until *metav1.Duration `json:"until"`
	}
	var into struct {
		Windows map[string][]window `json:"windows"`
		Name    string              `json:"name"`
	}
	unknown, wrong, err := Decode([]byte(`{"nam":{"a":[]}, "windows": {"a": [{"until":"1h"}, `+
		`{"from": "noon", "until": "5 minutes", "till":1}, {"until":5}]}, "name": 5}`), &into)
	var found []string
	for _, p := range wrong {
		found = append(found, p.Field+": "+p.Message())
	}
	for _, u := range unknown {
		found = append(found, u.Field)
	}
	for i, want := range []string{
		"windows.a[1].from: expected a valid value: parsing time",
		"windows.a[1].until: expected a valid value: time: unknown unit",
		"windows.a[2].until: expected a text, but found a number",
		"name: expected a text, but found a number", "nam", "windows.a[1].till",
	} {
		if i >= len(found) || !strings.HasPrefix(found[i], want) {
			t.Errorf("expected %q, but found %q", want, found)
		}
	}
	if err != nil || len(found) != 6 || into.Windows["a"][0].Until.Duration != time.Hour {
		t.Errorf("found error %v, %q and %+v", err, found, into)
	}
}

func FuzzDecode(f *testing.F) {
	type config struct {
		Text  string           `json:"text"`
		List  []map[string]int `json:"list"`
		Inner *struct {
			Raw json.RawMessage `json:"raw"`
			On  bool            `json:"on"`
		} `json:"inner"`
		Keys map[int]*float64 `json:"keys"`
	}
	f.Add(`{"text":1,"list":[5,{"a":"b"},{"c":1.5}],"inner":{"raw":[],"on":null},"keys":{"x":1,"2":"3"}}`)
	f.Add(` [ {} ] `)
	f.Fuzz(func(t *testing.T, document string) {
		_, wrong, err := Decode([]byte(document), &config{})
		strict := kjson.UnmarshalCaseSensitivePreserveInts([]byte(document), &config{})
		if (len(wrong) > 0 || err != nil) != (strict != nil) {
			t.Errorf("expected what %v says, but found %v and %v", strict, wrong, err)
		}
	})
}
