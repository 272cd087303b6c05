package boundedyaml_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pergola-deploy/pergola/plugins/internal/boundedyaml"
)

func TestToJSON(t *testing.T) {
	t.Parallel()
	large, long := strings.Repeat("x", 5<<20), strings.Repeat("x", 2000)
	for name, c := range map[string]struct{ reason, document, want string }{
		"YAML": {"as Kubernetes reads it", "a: yes\nb: 9007199254740993\n", `{"a":true,"b":9007199254740993}`},
		"aliases": {
			"people repeat little things by them", "a: &a {b: c}\nd: [*a, *a]\ne: {<<: *a}\n",
			`{"a":{"b":"c"},"d":[{"b":"c"},{"b":"c"}],"e":{"b":"c"}}`,
		},
		"large": {"without aliases it is as large as it is written", "a: " + large, `{"a":"` + large + `"}`},
		// Rule (container.md#contract-with-the-image): JSON is read where YAML is, also if it is no YAML, such as
		// `\ud83d\ude00`.
		"pairs": {
			"Python writes an emoji like this", `{"a": ["\ud83d\ude00", {"b": "\/"}]}`,
			`{"a":["\ud83d\ude00",{"b":"\/"}]}`,
		},
		"long name": {"JSON has names of any length", `{"` + long + `": null}`, `{"` + long + `":null}`},
		"numbers":   {"they are read later", " [9007199254740993, 1e400]\n", `[9007199254740993,1e400]`},
		"no object": {"nothing is JSON, too", " null ", `null`},
		"directive": {"JSON has none", "{\"a\": \"\u2028%TAG\"}", "{\"a\":\"\u2028%TAG\"}"},
		"as names": {
			"only fields of one object are lost", `[{"a": {"a": "a"}}, {"b": "a", "a": "b"}]`,
			`[{"a":{"a":"a"}},{"b":"a","a":"b"}]`,
		},
		"text":   {"neither character needs to be of an alias", "a: b&c*d\n", `{"a":"b\u0026c*d"}`},
		"quoted": {"text again", "a: '&b *b'\n", `{"a":"\u0026b *b"}`},
		"within text": {
			"it is no directive", "a: b %TAG\n\"c\": '%TAG'\n", `{"a":"b %TAG","c":"%TAG"}`,
		},
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
	const (
		tooLarge, noYAML, noUTF8 = "its aliases stand for more than 4194304 bytes", "it is no YAML", "it is not in UTF-8"
		directive, tag           = "it has a directive %TAG", "%TAG !t! tag:hunter2\n---\na: !t!b c\n"
	)
	large := strings.Repeat("x", 36<<10)
	for name, c := range map[string]struct{ reason, document, want string }{
		"copies": {
			"few values, but large ones",
			"a: &hunter2 " + large + "\nb: [" + strings.Repeat("*hunter2,", 9000) + "]\n", tooLarge,
		},
		"copies of all": {"small aliases that stand for large ones", laughs(), tooLarge},
		"names": {
			"aliases may be names of fields",
			"a: &a " + large + "\nb: [" + strings.Repeat("{*a : 1},", 9000) + "]\n", tooLarge,
		},
		"itself":  {"it never ends", "a: &a [*a]\n", tooLarge},
		"unknown": {"it stands for nothing", "a: &b hunter2\nc: *hunter2\n", noYAML},
		"twice":   {"one of the two would be lost", "hunter2: a\nhunter2: b\n", noYAML},
		"twice in JSON": {
			"it is the same there", `[{"a": [{"hunter2": {}, "hunter\u0032": 1}]}]`,
			"it has two fields of the same name",
		},
		"bytes in JSON":   {"they would be replaced", "{\"a\": \"\xff\"}", noUTF8},
		"no YAML":         {"values are not quoted", "a: [hunter2", noYAML},
		"not UTF-8":       {"what is looked for has another form", "\xff\xfea\x00", noUTF8},
		"tags":            {"a tag repeats what it stands for", tag, directive},
		"tags later":      {"comments may come first", "#\r" + tag, directive},
		"tags and a mark": {"the mark is no part of the line", "\ufeff" + tag, directive},
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
		"a text may be anything": "a: [hunter2", "nor is this in UTF-8": "\xff",
		"tags repeat what they stand for": "%TAG !t! tag:hunter2\n---\na\n",
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
		text += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 9) + "]\n"
	}
	return text
}
