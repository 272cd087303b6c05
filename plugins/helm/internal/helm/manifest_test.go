package helm

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
)

// named is an object as YAML, with the name of its kind in lower case.
func named(kind string) string {
	return "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: " + strings.ToLower(kind) + "}\n"
}

// wanted is what becomes of it, with more fields before the kind.
func wanted(source, kind, before string) Object {
	return Object{Source: source, JSON: fmt.Appendf(nil, `{"apiVersion":"v1",%s"kind":%q,"metadata":{"name":%q}}`, before, kind, strings.ToLower(kind))}
}

func TestParseManifest(t *testing.T) {
	t.Parallel()
	a, b := wanted("", "A", ""), wanted("", "B", "")
	for name, c := range map[string]struct {
		reason   string
		manifest string
		want     []Object
		problem  string
	}{
		"nothing":  {reason: "a chart may render nothing"},
		"comments": {reason: "and say so", manifest: "---\n# Source: shop/templates/a.yaml\n# nothing\n---\n\n---\n"},
		"helm": {
			reason:   "as Helm writes it",
			manifest: "---\n# Source: shop/templates/a.yaml\n" + named("A") + "---\n# Source: shop/charts/sub/templates/b.yaml\n# a comment\n" + named("B"),
			want:     []Object{wanted("shop/templates/a.yaml", "A", ""), wanted("shop/charts/sub/templates/b.yaml", "B", "")},
		},
		"carriage returns": {
			reason:   "a template that was written elsewhere",
			manifest: "---\r\n# Source: a\r\n" + strings.ReplaceAll(named("A"), "\n", "\r\n"),
			want:     []Object{wanted("a", "A", "")},
		},
		"text": {
			reason:   "what looks like a separator, or like a source, may be text",
			manifest: named("A") + "data: |\n  ---\n  # Source: a\n",
			want:     []Object{wanted("", "A", `"data":"---\n# Source: a\n",`)},
		},
		"JSON documents": {
			reason:   "YAML, too",
			manifest: `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}` + "\n---\n" + named("B"),
			want:     []Object{a, b},
		},
		"list": {
			reason:   "one by one, as deep as they are",
			manifest: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: BList\n  items: [{metadata: {name: b}}]\n- null\n",
			want:     []Object{b},
		},
		"aliases": {
			reason: "a chart may use them", manifest: named("A") + "data: &x {b: c}\nimage: *x\n",
			want: []Object{wanted("", "A", `"data":{"b":"c"},"image":{"b":"c"},`)},
		},
		"numbers": {
			reason: "as Kubernetes reads them", manifest: named("A") + "data: [9007199254740993, 0x10, yes]\n",
			want: []Object{wanted("", "A", `"data":[9007199254740993,16,true],`)},
		},
		"comment before the source": {
			reason: "a post-renderer may have put it there", manifest: "# a comment\n# Source: a\n" + named("A"),
			want: []Object{wanted("a", "A", "")},
		},
		"long source": {
			reason:   "that is no name of a template",
			manifest: "# Source: " + strings.Repeat("x", 2000) + "\n" + named("A"), want: []Object{a},
		},
		"sequence": {
			reason: "nothing else is an object", manifest: "# Source: a\n- hunter2\n",
			problem: "a, document 1: it is no object of Kubernetes",
		},
		"text only": {
			reason: "nor is this", manifest: named("A") + "---\nhunter2\n",
			problem: "the manifest, document 2: it is no object of Kubernetes",
		},
		"no kind": {
			reason: "Helm would quote it", manifest: "apiVersion: v1\nmetadata: {name: hunter2}\n",
			problem: "it has no kind",
		},
		"no version": {
			reason: "nobody knows it", manifest: "kind: A\nmetadata: {name: a}\n",
			problem: `the A "a" has no apiVersion`,
		},
		"no name": {
			reason:   "it cannot be found again",
			manifest: "apiVersion: v1\nkind: A\nmetadata: {generateName: hunter2}\n", problem: "the A has no name",
		},
		"wrong type": {
			reason: "the field is named", manifest: "apiVersion: v1\nkind: [hunter2]\n",
			problem: "its field kind is a array",
		},
		"no YAML": {reason: "values are not quoted", manifest: "a: [hunter2", problem: "it is no YAML"},
		"separator": {
			reason: "as Helm does not read it, either", manifest: "kind: A\n---hunter2\n",
			problem: "it has no proper end",
		},
		"large": {
			reason: "no API server takes it", manifest: "a: " + strings.Repeat("x", maxDocument),
			problem: "it has more than 4194304 bytes",
		},
		"deep": {
			reason: "the parser bounds it", manifest: "a: " + strings.Repeat("[", 1_000_000),
			problem: "it is no YAML",
		},
		"deep blocks": {
			reason: "this way, too", manifest: "a:\n" + strings.Repeat("- ", 1_000_000), problem: "it is no YAML",
		},
		"tags": {
			reason: "each would repeat the text of the directive", manifest: "%TAG !t! tag:hunter2\r--- {a: !t!b c}\n",
			problem: "it has a directive %TAG",
		},
		"copies": {
			reason: "few values, but large ones", problem: "its aliases stand for more than 4194304 bytes",
			manifest: "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 10_000) + "]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseManifest("", c.manifest)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if (err == nil) != (c.problem == "") || err != nil && (!strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("%s: expected %q, but found %v", c.reason, c.problem, err)
			}
		})
	}
}

// readAsHelm splits a manifest with the reader that Helm uses.
func readAsHelm(manifest string) (all []string, err error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
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
			all = append(all, string(text))
		}
	}
}

// FuzzParseManifest: a manifest that can be read is read as Helm reads it, but for lists.
func FuzzParseManifest(f *testing.F) {
	for _, seed := range []string{
		"---\n# Source: a\n" + named("A") + "---\n" + named("B"), named("A") + "a: &a {b: c}\nd: *a\n<<: *a\n", named("A") + "...\n" + named("B"),
		"\r\n---\r\n\r\n--- # x\r\n" + named("A"), "\ufeff" + named("A"), "%YAML 1.1\n---\n" + named("A"), "kind: List\nitems: [" + "{}, 5]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, manifest string) {
		objects, err := ParseManifest("", manifest)
		if err != nil || strings.Contains(manifest, "items") || strings.HasPrefix(strings.TrimSpace(manifest), "{") {
			return
		}
		var ours []string
		for _, o := range objects {
			if !json.Valid(o.JSON) {
				t.Fatalf("an object is no JSON: %s", o.JSON)
			}
			ours = append(ours, string(o.JSON))
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
