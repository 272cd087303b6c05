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
	const format = `{"apiVersion":"v1",%s"kind":%q,"metadata":{"name":%q}}`
	return Object{Source: source, JSON: fmt.Appendf(nil, format, before, kind, strings.ToLower(kind))}
}

func TestParseManifest(t *testing.T) {
	t.Parallel()
	a, b := wanted("", "A", ""), wanted("", "B", "")
	for name, c := range map[string]struct {
		manifest string
		want     []Object
	}{
		"nothing":  {},
		"comments": {manifest: "---\n# Source: shop/templates/a.yaml\n# nothing\n---\n\n---\n"},
		"as Helm writes it": {
			"---\n# Source: shop/templates/a.yaml\n" + named("A") +
				"---\n# Source: shop/charts/sub/templates/b.yaml\n# a comment\n" + named("B"),
			[]Object{wanted("shop/templates/a.yaml", "A", ""), wanted("shop/charts/sub/templates/b.yaml", "B", "")},
		},
		"carriage returns": {
			"---\r\n# Source: a\r\n" + strings.ReplaceAll(named("A"), "\n", "\r\n"), []Object{wanted("a", "A", "")},
		},
		"text like a separator and a source": {
			named("A") + "data: |\n  ---\n  # Source: a\n", []Object{wanted("", "A", `"data":"---\n# Source: a\n",`)},
		},
		"JSON documents": {
			`{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}` + "\n---\n" + named("B"), []Object{a, b},
		},
		"list in a list": {
			"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: BList\n  items: [{metadata: {name: b}}]\n- null\n",
			[]Object{b},
		},
		"aliases": {
			named("A") + "data: &x {b: c}\nimage: *x\n", []Object{wanted("", "A", `"data":{"b":"c"},"image":{"b":"c"},`)},
		},
		"numbers as Kubernetes reads them": {
			named("A") + "data: [9007199254740993, 0x10, yes]\n",
			[]Object{wanted("", "A", `"data":[9007199254740993,16,true],`)},
		},
		"comment before the source":  {"# a comment\n# Source: a\n" + named("A"), []Object{wanted("a", "A", "")}},
		"source that is no template": {"# Source: " + strings.Repeat("x", 2000) + "\n" + named("A"), []Object{a}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseManifest("", c.manifest)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("-want +got:\n%s%v", diff, err)
			}
		})
	}
}

// TestParseManifestInVain: the error says what is wrong where, and quotes no value.
func TestParseManifestInVain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ manifest, problem string }{
		"sequence":    {"# Source: a\n- hunter2\n", "a, document 1: it is no object of Kubernetes"},
		"text only":   {named("A") + "---\nhunter2\n", "the manifest, document 2: it is no object of Kubernetes"},
		"no kind":     {"apiVersion: v1\nmetadata: {name: hunter2}\n", "it has no kind"},
		"no version":  {"kind: A\nmetadata: {name: a}\n", `the A "a" has no apiVersion`},
		"no name":     {"apiVersion: v1\nkind: A\nmetadata: {generateName: hunter2}\n", "the A has no name"},
		"wrong type":  {"apiVersion: v1\nkind: [hunter2]\n", "its field kind is a array"},
		"no YAML":     {"a: [hunter2", "it is no YAML"},
		"separator":   {"kind: A\n---hunter2\n", "it has no proper end"}, // Helm does not read it, either
		"large":       {"a: " + strings.Repeat("x", maxDocument), "it has more than 4194304 bytes"},
		"deep":        {"a: " + strings.Repeat("[", 1_000_000), "it is no YAML"},
		"deep blocks": {"a:\n" + strings.Repeat("- ", 1_000_000), "it is no YAML"},
		// Each tag would repeat the text of the directive.
		"tags": {"%TAG !t! tag:hunter2\r--- {a: !t!b c}\n", "it has a directive %TAG"},
		"copies": {
			"a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 10_000) + "]\n",
			"its aliases stand for more than 4194304 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseManifest("", c.manifest)
			if err == nil || !strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("expected %q, but found %v, %v", c.problem, got, err)
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
		"---\n# Source: a\n" + named("A") + "---\n" + named("B"), named("A") + "a: &a {b: c}\nd: *a\n<<: *a\n",
		named("A") + "...\n" + named("B"), "\r\n---\r\n\r\n--- # x\r\n" + named("A"), "\ufeff" + named("A"),
		"%YAML 1.1\n---\n" + named("A"), "kind: List\nitems: [{}, 5]",
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
