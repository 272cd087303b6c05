package config

import (
	"encoding/json"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func withFiles(filesystem any) tree {
	return configOf(tree{"blueprint": tree{"inline": tree{"filesystem": filesystem}}})
}

// nested is a file system with as many directories in each other.
func nested(directories int) any {
	filesystem := tree{"file": "text"}
	for range directories {
		filesystem = tree{"d": filesystem}
	}
	return filesystem
}

// nestedLists is a list in as many others.
func nestedLists(others int) any {
	list := []any{}
	for range others {
		list = []any{list}
	}
	return list
}

func TestFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason     string
		filesystem any
		want       map[string]string
	}{
		"empty": {reason: "a blueprint may have no files", filesystem: tree{}, want: map[string]string{}},
		// Rule (container.md#provider-configuration): Files of a blueprint: an object is a directory.
		"object": {
			reason: "objects are directories", filesystem: tree{
				"blueprint.yaml": "kind: Blueprint\n", "a": tree{"b": tree{"c": ""}, "d": "e"}, "empty": tree{},
			},
			want: map[string]string{"blueprint.yaml": "kind: Blueprint\n", "a/b/c": "", "a/d": "e"},
		},
		"text": {
			reason: "Landscaper's users write it as YAML", filesystem: "blueprint.yaml: |\n  kind: Blueprint\na: {b: c}\n",
			want: map[string]string{"blueprint.yaml": "kind: Blueprint\n", "a/b": "c"},
		},
		// Rule (container.md#provider-configuration): Files of a blueprint: other values are files in YAML.
		"values": {
			reason:     "anything else is the content of a YAML file",
			filesystem: tree{"number": 5, "list": []any{"a", tree{"b": true}}, "truth": false, "nothing": nil, "float": 1.5},
			want: map[string]string{
				"number": "5\n", "list": "- a\n- b: true\n", "truth": "false\n", "nothing": "null\n", "float": "1.5\n",
			},
		},
		"long numbers": {
			reason:     "no digit is lost",
			filesystem: json.RawMessage(`{"number": 9007199254740993, "list": [-9223372036854775808]}`),
			want:       map[string]string{"number": "9007199254740993\n", "list": "- -9223372036854775808\n"},
		},
		"odd names": {
			reason: "Linux takes them", filesystem: tree{"...": "a", `\..\b`: "c", " ": "d", "ä\n": "e"},
			want: map[string]string{"...": "a", `\..\b`: "c", " ": "d", "ä\n": "e"},
		},
		"aliases": {
			reason: "people repeat little things by them", filesystem: "a: &a b\nc: *a\n",
			want: map[string]string{"a": "b", "c": "b"},
		},
		"deep values": {
			reason: "there is room, too", filesystem: tree{"a": []any{nestedLists(49)}},
			want: map[string]string{"a": strings.Repeat("- ", 50) + "[]\n"},
		},
		"deep": {
			reason: "there is room for what people do", filesystem: nested(50),
			want: map[string]string{strings.Repeat("d/", 50) + "file": "text"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := map[string]string{}
			for file, content := range mustRead(t, withFiles(c.filesystem)).Files {
				found[file] = string(content)
			}
			if diff := cmp.Diff(c.want, found); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

func TestFilesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason     string
		filesystem any
		want       string
	}{
		"empty name": {reason: "a file has a name", filesystem: tree{"": "a"}, want: `"" in "/" is no name`},
		"dot":        {reason: "it is the directory itself", filesystem: tree{".": "a"}, want: `"." in "/" is no name`},
		"dots": {
			reason: "it is another directory", filesystem: tree{"a": tree{"..": "b"}}, want: `".." in "/a" is no name`,
		},
		"path": {
			reason: "it may be the name of another file", filesystem: tree{"a/b": "c"}, want: `"a/b" in "/" is no name`,
		},
		"end":      {reason: "Linux does not take it", filesystem: tree{"a\x00b": "c"}, want: `is no name`},
		"too deep": {reason: "nobody needs it", filesystem: nested(51), want: "directories are nested more than 50 deep"},
		"nothing": {
			reason: "nor is nothing", filesystem: json.RawMessage("null"),
			want: "expected an object with files and directories",
		},
		"copies": {
			reason:     "so is that of few, but large values",
			filesystem: "a: &a " + strings.Repeat("x", 36<<10) + "\nb: [" + strings.Repeat("*a,", 9000) + "]\n",
			want:       "its aliases stand for more than 4194304 bytes",
		},
		"deep value": {
			reason: "its lines would be indented by thousands of spaces", want: `the content of "/a/b" is nested more than 50 deep`,
			filesystem: tree{"a": tree{"b": []any{nested(49)}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := problems(t, withFiles(c.filesystem))
			if len(found) != 1 || !strings.HasPrefix(found[0], "blueprint.inline.filesystem: ") ||
				!strings.Contains(found[0], c.want) {
				t.Errorf("%s: expected one problem with %q, but found %q", c.reason, c.want, found)
			}
		})
	}
}

// FuzzValidate: nothing that anybody can write breaks it, and it says the same of the same configuration. Files that
// are accepted stay below their directory.
func FuzzValidate(f *testing.F) {
	for _, value := range []any{
		configOf(nil), withFiles(tree{
			"a": tree{"b": 5},
		}), withFiles("a: b"), withFiles(tree{"..": ""}), configOf(tree{"image": 5}), []any{},
		configOf(tree{
			"componentDescriptor": tree{"inline": tree{}}, "registryPullSecrets": []any{
				tree{"name": "a"},
			}, "continuousReconcile": tree{"every": "1h"},
			"resources": tree{"limits": tree{"memory": "1Gi"}}, "serviceAccountName": "a", "runOnTarget": tree{"namespace": "b"},
		}),
	} {
		f.Add(string(marshal(f, value)))
	}
	f.Fuzz(func(t *testing.T, raw string) {
		s := DefaultSettings()
		first, err := Problems([]byte(raw), &s)
		if err != nil {
			t.Fatalf("expected problems, but found the error %v", err)
		}
		again, err := Problems([]byte(raw), &s)
		if diff := cmp.Diff(first, again); diff != "" || err != nil {
			t.Fatalf("found %v and (-first +again):\n%s", err, diff)
		}
		if len(first) > 0 || !json.Valid([]byte(raw)) {
			return
		}
		c := mustRead(t, json.RawMessage(raw))
		for file := range c.Files {
			if file == "" || path.Join("/", file) != "/"+file {
				t.Fatalf("%q is no path of a file", file)
			}
		}
		written := marshal(t, c.ProviderConfiguration)
		if found := problems(t, json.RawMessage(written)); len(found) > 0 {
			t.Fatalf("what was accepted is not accepted again as %s: %s", written, strings.Join(found, "\n"))
		}
	})
}
