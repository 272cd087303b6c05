package sdk

import (
	"strings"
	"testing"
)

func TestDecodeStrict(t *testing.T) {
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
		"wrong type":      {"the element of a list is named", `{"manifests":[{"policy":"a"},{"policy":"b"},{"policy":7}]}`, "manifests[2].policy: expected a text, but found the number"},
		"wrong after":     {"what follows does not matter", `{"manifests":[{"policy":true, "count":1},{"policy":"b"}],"names":{}}`, "manifests[0].policy: expected a text, but found true or false"},
		"nested":          {"fields of fields", `{"nested":{"E":{"count":"many"}}}`, "nested.E.count: expected a whole number, but found a text"},
		"fraction":        {"a fraction is no whole number", `{"manifests":[{"count":1.5}]}`, "manifests[0].count: expected a whole number, but found the number 1.5"},
		"pointer":         {"optional values", `{"manifests":[{"ready":"yes"}]}`, "manifests[0].ready: expected true or false, but found a text"},
		"object for list": {"a single one is no list", `{"manifests":{"policy":"keep"}}`, "manifests: expected a list, but found an object"},
		"list for object": {"a list is no object", `{"manifests":[{"data":["x"]}]}`, "manifests[0].data: expected an object, but found a list"},
		"map value":       {"values of a map by key", `{"names":{"first":"a","second":{}}}`, "names.second: expected a text, but found an object"},
		"unknown":         {"all unknown fields at once", `{"manifests":[{"polizy":"a"}],"namez":{}}`, `unknown field "manifests[0].polizy"; unknown field "namez"`},
		"whole document":  {"not even an object", `["x"]`, "expected an object, but found a list"},
		"no JSON":         {"cut off", `{"manifests":[`, "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			err := decodeStrict([]byte(tc.document), &config{})
			if tc.want == "" {
				if err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("%s: expected %q, but found %v", tc.reason, tc.want, err)
			}
		})
	}
}
