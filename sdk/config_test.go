package sdk

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func requestWithConfig(config string) *Request {
	item := &v1alpha1.DeployItem{}
	if config != "" {
		item.Spec.Config = &runtime.RawExtension{Raw: []byte(config)}
	}
	return &Request{DeployItem: item}
}

// configElement and testConfig are a provider configuration with values of all kinds.
type configElement struct {
	Policy string         `json:"policy"`
	Count  int64          `json:"count"`
	Factor float64        `json:"factor"`
	Ready  *bool          `json:"ready"`
	Data   map[string]any `json:"data"`
}

type testConfig struct {
	Manifests []configElement           `json:"manifests"`
	Nested    struct{ E configElement } `json:"nested"`
	Names     map[string]string         `json:"names"`
}

func TestDecodeConfig(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config string
		want   string // the beginning of the message after "spec.config: "; empty for no error
	}{
		"good": {`{"manifests":[{"policy":"keep","count":1,"ready":true}],"names":{"a":"b"}}`, ""},
		"wrong type in a list": {
			`{"manifests":[{"policy":"a"},{"policy":"b"},{"policy":7}]}`,
			"manifests[2].policy: expected a text, but found a number",
		},
		"fraction": {
			`{"manifests":[{"count":1.5}]}`, "manifests[0].count: expected a whole number, but found the number 1.5",
		},
		"all wrong types at once, and unknown fields with them": {
			`{"manifests": [{"policy": 7, "count":"x", "polizy":1},5], "nested" :{"E":{"data" : [ 1 ], "ready":{}}},"names":[]}`,
			"manifests[0].policy: expected a text, but found a number; " +
				"manifests[0].count: expected a whole number, but found a text; " +
				"manifests[1]: expected an object, but found a number; nested.E.data: expected an object, but found a list; " +
				"nested.E.ready: expected true or false, but found an object; names: expected an object, but found a list; " +
				`unknown field "manifests[0].polizy"`,
		},
		"all unknown fields at once": {
			`{"manifests":[{"polizy":"a"}],"namez":{}}`,
			`unknown field "manifests[0].polizy"; did you mean policy?; unknown field "namez"; did you mean names?`,
		},
		"other case":     {`{"Names":{}}`, `unknown field "Names"`},
		"duplicate":      {`{"nested":{"E":{"count":1,"count":2}}}`, `duplicate field "nested.E.count"`},
		"whole document": {`["x"]`, "expected an object, but found a list"},
		"no JSON":        {`{"manifests":[`, "unexpected end"},
		"missing":        {"", "the provider configuration is missing"},
	} {
		err := requestWithConfig(tc.config).DecodeConfig(&testConfig{})
		reason := ReasonConfigInvalid
		if tc.config == "" {
			reason = ReasonConfigMissing
		}
		var found *Error
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.want == "":
		case !errors.As(err, &found) || found.Reason != reason || !strings.HasPrefix(err.Error(), "spec.config: "+tc.want) ||
			!slices.Equal(Codes(err), []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}):
			t.Errorf("%s: expected the reason %s with %q, but found %v %v", name, reason, tc.want, Codes(err), err)
		}
	}
}

// Unknown fields are returned, and values of a wrong type are not passed over.
func TestDecodeConfigLeniently(t *testing.T) {
	t.Parallel()
	var got testConfig
	unknown, err := requestWithConfig(`{"b":1,"names":{"a":"b"},"c":2}`).DecodeConfigLeniently(&got)
	if !slices.Equal(unknown, []string{`unknown field "b"`, `unknown field "c"`}) || err != nil || got.Names["a"] != "b" {
		t.Errorf("error %v, unknown fields %q, config %v", err, unknown, got)
	}
	for _, config := range []string{`{"names":1}`, ""} {
		if _, err := requestWithConfig(config).DecodeConfigLeniently(&got); err == nil {
			t.Errorf("%q: expected an error", config)
		}
	}
}

// What has the right type is read, with all digits, and what has not is empty and there.
func TestDecodeConfigPartly(t *testing.T) {
	t.Parallel()
	var got testConfig
	_, wrong, err := requestWithConfig(`{"names":{"a":"b","c":1},"manifests":[{"policy":{"a":[1]},"ready":"yes",` +
		`"count":9007199254740993},{"count":1.5,"factor":2},{"count":3,"factor":"4"}]}`).DecodeConfigPartly(&got)
	if err != nil || len(wrong) != 5 {
		t.Errorf("expected five values of a wrong type, but found %v and %v", wrong, err)
	}
	want := testConfig{
		Names:     map[string]string{"a": "b", "c": ""},
		Manifests: []configElement{{Ready: new(bool), Count: 9007199254740993}, {Factor: 2}, {Count: 3}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestConfigGroupVersionKind(t *testing.T) {
	t.Parallel()
	for config, want := range map[string][2]string{
		`{"apiVersion":"a/v1","kind":"B","x":1}`: {"a/v1", "B"},
		"":                                       {}, `{"x":1}`: {}, `{`: {},
	} {
		if apiVersion, kind := requestWithConfig(config).ConfigGroupVersionKind(); apiVersion != want[0] || kind != want[1] {
			t.Errorf("%s: found %q, %q", config, apiVersion, kind)
		}
	}
}
