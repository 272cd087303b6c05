package sdk

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "sigs.k8s.io/json"
)

func TestDecode(t *testing.T) {
	type element struct {
		Policy string         `json:"policy"`
		Count  int            `json:"count"`
		Ready  *bool          `json:"ready"`
		Data   map[string]any `json:"data"`
	}
	type config struct {
		Manifests []element           `json:"manifests"`
		Nested    struct{ E element } `json:"nested"`
		Names     map[string]string   `json:"names"`
	}
	for name, tc := range map[string]struct{ reason, document, want string }{
		"good":            {"nothing is wrong", `{"manifests":[{"policy":"keep","count":1,"ready":true}],"names":{"a":"b"}}`, ""},
		"wrong type":      {"the element of a list is named", `{"manifests":[{"policy":"a"},{"policy":"b"},{"policy":7}]}`, "manifests[2].policy: expected a text, but found a number"},
		"wrong after":     {"what follows does not matter", `{"manifests":[{"policy":true, "count":1},{"policy":"b"}],"names":{}}`, "manifests[0].policy: expected a text, but found true or false"},
		"nested":          {"fields of fields", `{"nested":{"E":{"count":"many"}}}`, "nested.E.count: expected a whole number, but found a text"},
		"fraction":        {"a fraction is no whole number", `{"manifests":[{"count":1.5}]}`, "manifests[0].count: expected a whole number, but found the number 1.5"},
		"pointer":         {"optional values", `{"manifests":[{"ready":"yes"}]}`, "manifests[0].ready: expected true or false, but found a text"},
		"object for list": {"a single one is no list", `{"manifests":{"policy":"keep"}}`, "manifests: expected a list, but found an object"},
		"list for object": {"a list is no object", `{"manifests":[{"data":["x"]}]}`, "manifests[0].data: expected an object, but found a list"},
		"map value":       {"values of a map by key", `{"names":{"first":"a","second":{}}}`, "names.second: expected a text, but found an object"},
		"wrong types": {
			"all of them at once, and unknown fields with them", `{"manifests": [{"policy": 7, "count":"x", "polizy":1},5], "nested" :{"E":{"data" : [ 1 ], "ready":{}}},"names":[]}`,
			"manifests[0].policy: expected a text, but found a number; manifests[0].count: expected a whole number, but found a text; " +
				"manifests[1]: expected an object, but found a number; nested.E.data: expected an object, but found a list; " +
				"nested.E.ready: expected true or false, but found an object; names: expected an object, but found a list; " +
				`unknown field "manifests[0].polizy"`,
		},
		"unknown":        {"all unknown fields at once", `{"manifests":[{"polizy":"a"}],"namez":{}}`, `unknown field "manifests[0].polizy"; unknown field "namez"`},
		"whole document": {"not even an object", `["x"]`, "expected an object, but found a list"},
		"no JSON":        {"cut off", `{"manifests":[`, "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			unknown, wrong, err := decode([]byte(tc.document), &config{})
			if err == nil {
				err = misread(wrong, unknown)
			}
			found := ""
			if err != nil {
				found = strings.TrimPrefix(err.Error(), "spec.config: ")
			}
			if !strings.HasPrefix(found, tc.want) || tc.want == "" && found != "" {
				t.Errorf("%s: expected %q, but found %q", tc.reason, tc.want, found)
			}
		})
	}
}

// TestDecodePartly: what has the right type is read, and what has not is empty and there.
func TestDecodePartly(t *testing.T) {
	type config struct {
		Name   string            `json:"name"`
		On     *bool             `json:"on"`
		Labels map[string]string `json:"labels"`
		List   []struct {
			Count  int     `json:"count"`
			Factor float64 `json:"factor"`
		} `json:"list"`
	}
	found := config{}
	_, wrong, err := decode([]byte(`{"name":{"a":[1]},"on":"yes","labels":{"a":"b","c":1},"list":[{"count":1.5,"factor":2},{"count":3,"factor":"4"}]}`), &found)
	if err != nil || len(wrong) != 5 {
		t.Errorf("expected five values of a wrong type, but found %v and %v", wrong, err)
	}
	off := false
	want := config{On: &off, Labels: map[string]string{"a": "b", "c": ""}}
	want.List = append(want.List, struct {
		Count  int     `json:"count"`
		Factor float64 `json:"factor"`
	}{0, 2}, struct {
		Count  int     `json:"count"`
		Factor float64 `json:"factor"`
	}{3, 0})
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDecodeManyWrongTypes: a document cannot keep the decoder busy for long.
func TestDecodeManyWrongTypes(t *testing.T) {
	var into []string
	_, wrong, err := decode([]byte("["+strings.Repeat("1,", 10000)+"1]"), &into)
	if err != nil || len(wrong) != mostWrong {
		t.Errorf("expected %d values of a wrong type, but found %d, and %v", mostWrong, len(wrong), err)
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
		_, wrong, err := decode([]byte(document), &config{})
		strict := kjson.UnmarshalCaseSensitivePreserveInts([]byte(document), &config{})
		if (len(wrong) > 0 || err != nil) != (strict != nil) {
			t.Errorf("expected what %v says, but found %v and %v", strict, wrong, err)
		}
	})
}
