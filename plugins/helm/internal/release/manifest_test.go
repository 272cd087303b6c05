package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason   string
		manifest string
		want     []helm.Object
		problem  string
	}{
		"nothing":  {reason: "a chart may render nothing", manifest: ""},
		"comments": {reason: "and say so", manifest: "---\n# Source: shop/templates/a.yaml\n# nothing\n---\n\n---\n"},
		"helm": {
			reason:   "as Helm writes it",
			manifest: "---\n# Source: shop/templates/a.yaml\nkind: A\n---\n# Source: shop/charts/sub/templates/b.yaml\n# a comment\nkind: B\n",
			want:     []helm.Object{{Source: "shop/templates/a.yaml", JSON: raw(`{"kind":"A"}`)}, {Source: "shop/charts/sub/templates/b.yaml", JSON: raw(`{"kind":"B"}`)}},
		},
		"carriage returns": {
			reason: "a template that was written elsewhere", manifest: "---\r\n# Source: a\r\nkind: A\r\ntext: |\r\n  x\r\n---\r\nkind: B\r\n",
			want: []helm.Object{{Source: "a", JSON: raw(`{"kind":"A","text":"x\n"}`)}, {JSON: raw(`{"kind":"B"}`)}},
		},
		"text": {
			reason: "what looks like a separator, or like a source, may be text", manifest: "kind: A\ntext: |\n  ---\n  # Source: a\n",
			want: []helm.Object{{JSON: raw(`{"kind":"A","text":"---\n# Source: a\n"}`)}},
		},
		"JSON": {
			reason: "as a post-renderer may write it", manifest: "{\"kind\":\"A\"}\n{\"kind\":\"B\"}",
			want: []helm.Object{{JSON: raw(`{"kind":"A"}`)}, {JSON: raw(`{"kind":"B"}`)}},
		},
		"JSON documents": {
			reason: "or so", manifest: "{\"kind\":\"A\"}\n---\n{kind: B}\n",
			want: []helm.Object{{JSON: raw(`{"kind":"A"}`)}, {JSON: raw(`{"kind":"B"}`)}},
		},
		"JSON and text": {
			reason: "what comes after JSON has to be read, too", manifest: "{\"kind\":\"A\"}hunter2", problem: "document 2 of its manifest, from template \"\": it is no object",
		},
		"JSON and no JSON": {
			reason: "Helm does not look for YAML any more", manifest: "{\"kind\":\"A\"}\n{\"kind\":\"B\"}\n---\nkind: hunter2\n",
			problem: "value 3 of its manifest is no JSON",
		},
		"JSON of other things": {
			reason: "neither is an object", manifest: "{\"kind\":\"A\"}\nnull [\"hunter2\"]", problem: "value 3 of its manifest: it is no object",
		},
		"aliases": {
			reason: "a chart may use them", manifest: "kind: A\na: &x {b: c}\nd: *x\n",
			want: []helm.Object{{JSON: raw(`{"a":{"b":"c"},"d":{"b":"c"},"kind":"A"}`)}},
		},
		"numbers": {
			reason: "as Kubernetes reads them", manifest: "a: 9007199254740993\nb: 0x10\nc: yes\n",
			want: []helm.Object{{JSON: raw(`{"a":9007199254740993,"b":16,"c":true}`)}},
		},
		"comment before the source": {
			reason: "a post-renderer may have put it there", manifest: "# a comment\n# Source: a\nkind: A\n",
			want: []helm.Object{{Source: "a", JSON: raw(`{"kind":"A"}`)}},
		},
		"long source": {
			reason: "that is no name of a template", manifest: "# Source: " + strings.Repeat("x", 2000) + "\nkind: A\n", want: []helm.Object{{JSON: raw(`{"kind":"A"}`)}},
		},
		"list":      {reason: "nothing else is an object", manifest: "# Source: a\n- hunter2\n", problem: `document 1 of its manifest, from template "a": it is no object`},
		"text only": {reason: "nor is this", manifest: "kind: A\n---\nhunter2\n", problem: `document 2 of its manifest, from template "": it is no object`},
		"no YAML":   {reason: "values are not quoted", manifest: "a: [hunter2", problem: "it is no YAML"},
		"separator": {reason: "as Helm does not read it, either", manifest: "kind: A\n---hunter2\n", problem: "document 1 of its manifest has no proper end"},
		"large":     {reason: "no API server takes it", manifest: "a: " + strings.Repeat("x", maxDocument), problem: "it has more than 4194304 bytes"},
		"deep":      {reason: "the parser bounds it", manifest: "a: " + strings.Repeat("[", 1_000_000), problem: "it is no YAML"},
		"deep blocks": {
			reason: "this way, too", manifest: "a:\n" + strings.Repeat("- ", 1_000_000), problem: "it is no YAML",
		},
		"laughs": {
			reason:  "small aliases that stand for large ones",
			problem: "its aliases stand for more than 4194304 bytes",
			manifest: "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
				"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\n",
		},
		"copies": {
			reason: "few values, but large ones", problem: "its aliases stand for more than 4194304 bytes",
			manifest: "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 10_000) + "]\n",
		},
		"itself":     {reason: "it never ends", manifest: "a: &a [*a]\n", problem: "its aliases stand for more than 4194304 bytes"},
		"bad alias":  {reason: "it stands for nothing", manifest: "a: *b\nc: &d e\n", problem: "it is no YAML"},
		"null value": {reason: "null is a value", manifest: "kind: A\na:\n", want: []helm.Object{{JSON: raw(`{"a":null,"kind":"A"}`)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := split(c.manifest)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			switch {
			case c.problem == "" && err != nil:
				t.Errorf("%s: expected no error, but found %v", c.reason, err)
			case c.problem != "" && (!errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "hunter2")):
				t.Errorf("%s: expected %q, but found %v", c.reason, c.problem, err)
			}
		})
	}
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }

// readAsHelm splits a manifest with the reader that Helm uses.
func readAsHelm(manifest string) ([]string, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	var all []string
	for {
		var extension runtime.RawExtension
		err := decoder.Decode(&extension)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if text := bytes.TrimSpace(extension.Raw); len(text) > 0 && !bytes.Equal(text, []byte("null")) {
			all = append(all, compact(text))
		}
	}
}

func compact(text []byte) string {
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return fmt.Sprintf("%v: %s", err, text)
	}
	return out.String()
}

// FuzzSplit: a manifest that can be read is read as Helm reads it.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{
		"---\n# Source: a\nkind: A\n---\nkind: B\n", "{\"kind\":\"A\"}\n{\"kind\":\"B\"}\n", "{\"kind\":\"A\"}\n---\n{kind: B}\n", "a: &a {b: c}\nd: *a\n<<: *a\n",
		"kind: A\r\n---\r\n\r\n--- # x\r\ntext: |\r\n  ---\r\n", "kind: A\n...\nkind: B\n", "? [a]\n: b\n", "\ufeffkind: A\n", "a: !!binary aGk=\n", "%YAML 1.1\n---\na: b\n", "{}A", "{}null{}---\n{}", " {a: b}\n---\n{}{}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, manifest string) {
		objects, err := split(manifest)
		if err != nil {
			if !errors.Is(err, ErrUnreadable) {
				t.Errorf("expected a release that cannot be read, but found %v", err)
			}
			return
		}
		var ours []string
		for _, o := range objects {
			ours = append(ours, compact(o.JSON))
		}
		theirs, err := readAsHelm(manifest)
		if err != nil {
			t.Skip("Helm cannot read it")
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("-Helm +ours:\n%s", diff)
		}
	})
}
