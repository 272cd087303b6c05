package document

import (
	"encoding/json"
	"strings"
	"testing"

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
