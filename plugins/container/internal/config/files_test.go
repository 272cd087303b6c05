package config

import (
	"encoding/json"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
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
	type files = map[string]string
	values := tree{"number": 5, "list": []any{"a", tree{"b": true}}, "truth": false, "nothing": nil, "float": 1.5}
	for _, c := range []struct {
		name       string
		filesystem any
		want       files
	}{
		{"empty", tree{}, files{}},
		// Rule (container.md#provider-configuration): Files of a blueprint: an object is a directory.
		{
			"object", tree{"blueprint.yaml": "kind: B\n", "a": tree{"b": tree{"c": ""}, "d": "e"}, "empty": tree{}},
			files{"blueprint.yaml": "kind: B\n", "a/b/c": "", "a/d": "e"},
		},
		{
			"text of Landscaper's users", "blueprint.yaml: |\n  kind: B\na: {b: c}\n",
			files{"blueprint.yaml": "kind: B\n", "a/b": "c"},
		},
		// Rule (container.md#provider-configuration): Files of a blueprint: other values are files in YAML.
		{"values", values, files{
			"number": "5\n", "list": "- a\n- b: true\n", "truth": "false\n", "nothing": "null\n", "float": "1.5\n",
		}},
		{
			"long numbers", json.RawMessage(`{"number": 9007199254740993, "list": [-9223372036854775808]}`),
			files{"number": "9007199254740993\n", "list": "- -9223372036854775808\n"},
		},
		{
			"odd names that Linux takes", tree{"...": "a", `\..\b`: "c", " ": "d", "ä\n": "e"},
			files{"...": "a", `\..\b`: "c", " ": "d", "ä\n": "e"},
		},
		{"aliases", "a: &a b\nc: *a\n", files{"a": "b", "c": "b"}},
		{"deep values", tree{"a": []any{nestedLists(49)}}, files{"a": strings.Repeat("- ", 50) + "[]\n"}},
		{"deep", nested(50), files{strings.Repeat("d/", 50) + "file": "text"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := files{}
			for file, content := range mustRead(t, withFiles(c.filesystem)).Files {
				found[file] = string(content)
			}
			if diff := cmp.Diff(c.want, found); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestFilesAreRefused(t *testing.T) {
	t.Parallel()
	copies := "a: &a " + strings.Repeat("x", 36<<10) + "\nb: [" + strings.Repeat("*a,", 9000) + "]\n"
	for want, filesystem := range map[string]any{
		`"" in "/" is no name`:                          tree{"": "a"},
		`"." in "/" is no name`:                         tree{".": "a"},
		`".." in "/a" is no name`:                       tree{"a": tree{"..": "b"}},
		`"a/b" in "/" is no name`:                       tree{"a/b": "c"},
		`is no name`:                                    tree{"a\x00b": "c"},
		"directories are nested more than 50 deep":      nested(51),
		"expected an object with files and directories": json.RawMessage("null"),
		"its aliases stand for more than 4194304 bytes": copies,
		// Its lines would be indented by thousands of spaces.
		`the content of "/a/b" is nested more than 50 deep`: tree{"a": tree{"b": []any{nested(49)}}},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			found := problems(t, withFiles(filesystem))
			if len(found) != 1 || !strings.HasPrefix(found[0], "blueprint.inline.filesystem: ") ||
				!strings.Contains(found[0], want) {
				t.Errorf("expected one problem, but found %q", found)
			}
		})
	}
}

// FuzzValidate: nothing that anybody can write breaks it, and it says the same of the same configuration. Files that
// are accepted stay below their directory.
func FuzzValidate(f *testing.F) {
	for _, value := range []any{
		configOf(nil), withFiles(tree{"a": tree{"b": 5}}), withFiles("a: b"), withFiles(tree{"..": ""}),
		configOf(tree{"image": 5}), []any{},
		configOf(tree{
			"componentDescriptor": tree{"inline": tree{}}, "registryPullSecrets": []any{tree{"name": "a"}},
			"continuousReconcile": tree{"every": "1h"}, "resources": tree{"limits": tree{"memory": "1Gi"}},
			"serviceAccountName": "a", "runOnTarget": tree{"namespace": "b"},
		}),
	} {
		f.Add(string(marshal(f, value)))
	}
	f.Fuzz(func(t *testing.T, raw string) {
		item := &landscaper.DeployItem{}
		item.Spec.Config = &runtime.RawExtension{Raw: []byte(raw)}
		_, err := Read(&sdk.Request{DeployItem: item}, settings())
		first := sdk.ProblemsOf(err)
		if err != nil && len(first) == 0 {
			t.Fatalf("expected problems, but found the error %v", err)
		}
		_, again := Read(&sdk.Request{DeployItem: item}, settings())
		if diff := cmp.Diff(first, sdk.ProblemsOf(again)); diff != "" {
			t.Fatalf("-first +again:\n%s", diff)
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
