package jsonnode_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/pergola-deploy/pergola/host/internal/jsonnode"
)

func TestParse(t *testing.T) {
	scalar := func(tag, value string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Tag: tag, Value: value}
	}
	collection := func(kind yaml.Kind, content ...*yaml.Node) *yaml.Node {
		return &yaml.Node{Kind: kind, Content: content}
	}
	cases := map[string]struct {
		reason, text string
		want         *yaml.Node
	}{
		"text":       {reason: "a surrogate pair is one character", text: `"\ud83c\udf39"`, want: scalar("!!str", "🌹")},
		"number":     {reason: "digits are kept", text: `9007199254740993.10`, want: scalar("!!float", "9007199254740993.10")},
		"truth":      {reason: "true is no text", text: `true`, want: scalar("!!bool", "true")},
		"null":       {reason: "null is a value", text: `null`, want: scalar("!!null", "null")},
		"list":       {reason: "in order", text: `["b","a"]`, want: collection(yaml.SequenceNode, scalar("!!str", "b"), scalar("!!str", "a"))},
		"duplicates": {reason: "both keys are there to be found", text: `{"a":1,"a":[]}`, want: collection(yaml.MappingNode, scalar("!!str", "a"), scalar("!!float", "1"), scalar("!!str", "a"), collection(yaml.SequenceNode))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := jsonnode.Parse([]byte(tc.text))
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", tc.reason, err, diff)
			}
		})
	}
	if _, err := jsonnode.Parse([]byte(`{"a":`)); err == nil {
		t.Error("expected an error for a text that ends in the middle")
	}
}
