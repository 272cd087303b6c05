package boundedyaml_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pergola-deploy/pergola/plugins/internal/boundedyaml"
)

func TestToJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ reason, document, want string }{
		"YAML":    {reason: "as Kubernetes reads it", document: "a: yes\nb: 9007199254740993\n", want: `{"a":true,"b":9007199254740993}`},
		"aliases": {reason: "people repeat little things by them", document: "a: &a {b: c}\nd: [*a, *a]\ne: {<<: *a}\n", want: `{"a":{"b":"c"},"d":[{"b":"c"},{"b":"c"}],"e":{"b":"c"}}`},
		"large":   {reason: "without aliases it is as large as it is written", document: "a: " + strings.Repeat("x", 5<<20), want: `{"a":"` + strings.Repeat("x", 5<<20) + `"}`},
		// Rule (container.md#contract-with-the-image): JSON is read where YAML is, also if it is no YAML, such as
		// `\ud83d\ude00`.
		"pairs":       {reason: "Python writes an emoji like this", document: `{"a": ["\ud83d\ude00", {"b": "\/"}]}`, want: `{"a":["\ud83d\ude00",{"b":"\/"}]}`},
		"long name":   {reason: "JSON has names of any length", document: `{"` + strings.Repeat("x", 2000) + `": null}`, want: `{"` + strings.Repeat("x", 2000) + `":null}`},
		"numbers":     {reason: "they are read later", document: " [9007199254740993, 1e400]\n", want: `[9007199254740993,1e400]`},
		"no object":   {reason: "nothing is JSON, too", document: " null ", want: `null`},
		"directive":   {reason: "JSON has none", document: "{\"a\": \"\u2028%TAG\"}", want: "{\"a\":\"\u2028%TAG\"}"},
		"as names":    {reason: "only fields of one object are lost", document: `[{"a": {"a": "a"}}, {"b": "a", "a": "b"}]`, want: `[{"a":{"a":"a"}},{"b":"a","a":"b"}]`},
		"text":        {reason: "neither character needs to be of an alias", document: "a: b&c*d\n", want: `{"a":"b\u0026c*d"}`},
		"quoted":      {reason: "text again", document: "a: '&b *b'\n", want: `{"a":"\u0026b *b"}`},
		"within text": {reason: "it is no directive", document: "a: b %TAG\n\"c\": '%TAG'\n", want: `{"a":"b %TAG","c":"%TAG"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := boundedyaml.ToJSON([]byte(c.document))
			if err != nil || string(found) != c.want {
				t.Errorf("%s: expected %.100s, but found %.100s and error %v", c.reason, c.want, found, err)
			}
		})
	}
}

func TestToJSONRefuses(t *testing.T) {
	t.Parallel()
	const tooLarge, noYAML = "its aliases stand for more than 4194304 bytes", "it is no YAML"
	for name, c := range map[string]struct{ reason, document, want string }{
		"copies":        {reason: "few values, but large ones", document: "a: &hunter2 " + strings.Repeat("x", 36<<10) + "\nb: [" + strings.Repeat("*hunter2,", 9000) + "]\n", want: tooLarge},
		"copies of all": {reason: "small aliases that stand for large ones", document: laughs(), want: tooLarge},
		"names": {
			reason: "aliases may be names of fields", want: tooLarge,
			document: "a: &a " + strings.Repeat("x", 36<<10) + "\nb: [" + strings.Repeat("{*a : 1},", 9000) + "]\n",
		},
		"itself":          {reason: "it never ends", document: "a: &a [*a]\n", want: tooLarge},
		"unknown":         {reason: "it stands for nothing", document: "a: &b hunter2\nc: *hunter2\n", want: noYAML},
		"twice":           {reason: "one of the two would be lost", document: "hunter2: a\nhunter2: b\n", want: noYAML},
		"twice in JSON":   {reason: "it is the same there", document: `[{"a": [{"hunter2": {}, "hunter\u0032": 1}]}]`, want: "it has two fields of the same name"},
		"bytes in JSON":   {reason: "they would be replaced", document: "{\"a\": \"\xff\"}", want: "it is not in UTF-8"},
		"no YAML":         {reason: "values are not quoted", document: "a: [hunter2", want: noYAML},
		"not UTF-8":       {reason: "what is looked for has another form", document: "\xff\xfea\x00", want: "it is not in UTF-8"},
		"tags":            {reason: "a tag repeats what it stands for", document: "%TAG !t! tag:hunter2\n---\na: !t!b c\n", want: "it has a directive %TAG"},
		"tags later":      {reason: "comments may come first", document: "#\r%TAG !t! tag:hunter2\n---\na: !t!b c\n", want: "it has a directive %TAG"},
		"tags and a mark": {reason: "the mark is no part of the line", document: "\ufeff%TAG !t! tag:hunter2\n---\na: !t!b c\n", want: "it has a directive %TAG"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := boundedyaml.ToJSON([]byte(c.document))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: expected %q, but found %v", c.reason, c.want, err)
			}
		})
	}
}

// TestParse: aliases stay what they are, so that a document is never larger than it is written.
func TestParse(t *testing.T) {
	t.Parallel()
	node, err := boundedyaml.Parse([]byte(laughs()))
	if err != nil || node.Kind != yaml.DocumentNode {
		t.Errorf("expected a document, but found %v and error %v", node, err)
	}
	for reason, document := range map[string]string{
		"a text may be anything": "a: [hunter2", "nor is this in UTF-8": "\xff", "tags repeat what they stand for": "%TAG !t! tag:hunter2\n---\na\n",
	} {
		if _, err := boundedyaml.Parse([]byte(document)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: expected an error that quotes nothing, but found %v", reason, err)
		}
	}
}

// laughs is short YAML with a very long meaning.
func laughs() string {
	text := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		text += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 8) + "*" + string(c-1) + "]\n"
	}
	return text
}
