package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func TestYAML(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ reason, document, want string }{
		{"keys are in order, lists as kubectl writes them", `{"b":[1,{"c":2,"d":[]}],"a":{}}`, "a: {}\nb:\n- 1\n- c: 2\n  d: []\n"},
		{"each digit of a number", `{"a":9007199254740993,"b":18446744073709551616,"c":1.50,"d":1e400,"e":-0}`, "a: 9007199254740993\nb: 18446744073709551616\nc: 1.50\nd: 1e400\ne: -0\n"},
		{"texts that look like something else", `{"a":"1","b":"true","c":"null","d":"","e":null,"y":true}`, "a: \"1\"\nb: \"true\"\nc: \"null\"\nd: \"\"\ne: null\n\"y\": true\n"},
		{"texts of several lines", `{"a":"one\ntwo\n"}`, "a: |\n  one\n  two\n"},
		{"what YAML does not take as JSON has it", `{"a":"` + "\x7f" + `","b":"\ud83d\ude00"}`, "a: \"\\x7F\"\nb: \"\\U0001F600\"\n"},
	} {
		got, err := yamlOf([]byte(tc.document))
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tc.reason, err, diff)
		}
	}
	if got, err := yamlOf([]byte("{")); err == nil {
		t.Errorf("expected an error, but found %q", got)
	}
}

// What is written can be read, and is the same.
func TestYAMLIsTheSame(t *testing.T) {
	t.Parallel()
	leaf := rapid.OneOf(
		rapid.String().AsAny(), rapid.Int32().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil), rapid.SliceOf(rapid.String()).AsAny(),
	)
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.MapOf(rapid.String(), leaf)).Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		text, err := yamlOf(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s%q", diff, text)
		}
	})
}
