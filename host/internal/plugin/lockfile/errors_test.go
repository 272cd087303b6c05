package lockfile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/plugin/lockfile"
)

const head = "apiVersion: host.pergola.dev/v1alpha1\nkind: PluginLock\n"

var digits = strings.Repeat("0123456789abcdef", 4)

// entry returns an entry in the form of JSON, which is YAML as well, with replacements.
func entry(oldnew ...string) string {
	return strings.NewReplacer(oldnew...).Replace(
		`{"file": "helm", "name": "helm", "version": "v1", "types": ["example.org/helm"], "sha256": "` + digits + `"}`)
}

func document(entries ...string) string {
	return head + "plugins: [" + strings.Join(entries, ", ") + "]\n"
}

func TestErrors(t *testing.T) {
	t.Parallel()
	const (
		rootNames  = "apiVersion, kind, plugins"
		entryNames = "file, name, version, types, hookedTypes, sha256"
		fileRule   = "expected the bare name of a file that is not hidden, of 1 to 255 bytes, but found "
		nameRule   = "expected the name that the plugin gives itself, a DNS label, but found "
	)
	long := strings.Repeat("a", 300)
	shortened := `"` + strings.Repeat("a", 64) + `..."`
	tests := map[string]struct {
		reason, text string
		want         []string
	}{
		"empty":     {"it must say what it is", "", []string{"is empty"}},
		"comment":   {"as good as empty", "# nothing\n", []string{"is empty"}},
		"null":      {"nothing in it", "null", []string{"expected an object, but found nothing"}},
		"list":      {"no object", "- a", []string{"expected an object, but found a list"}},
		"encoding":  {"no text", "\xff", []string{"is not UTF-8"}},
		"size":      {"far too much", strings.Repeat("#", 1<<20+1), []string{"is larger than 1048576 bytes"}},
		"documents": {"which one is meant?", document() + "---\n" + document(), []string{"holds several YAML documents; expected one"}},
		"syntax":    {"the line", head + "plugins: [", []string{"is no valid YAML: line 3: did not find expected node content"}},
		"second syntax": {
			"nothing may follow, broken or not", document() + "---\n[", []string{"is no valid YAML: line 5: did not find expected node content"},
		},
		"no fields": {
			"each that is missing", "{}",
			[]string{"apiVersion: is missing; expected a text", "kind: is missing; expected a text", "plugins: is missing; expected a list"},
		},
		"another kind": {
			"the rest follows other rules", "apiVersion: v1\nkind: List\nitems: []",
			[]string{`apiVersion: expected "host.pergola.dev/v1alpha1", but found "v1"`, `kind: expected "PluginLock", but found "List"`},
		},
		"another version": {
			"the rest follows other rules", "apiVersion: host.pergola.dev/v2\nkind: PluginLock\nplugins: 5\nmore: 6",
			[]string{`apiVersion: expected "host.pergola.dev/v1alpha1", but found "host.pergola.dev/v2"`},
		},
		"version that is no text": {"it says nothing", "apiVersion: 1\nkind: PluginLock\nplugins: []", []string{"apiVersion: expected a text, but found 1, which is a text only with quotes"}},
		"unknown": {
			"with the path, and what there is", document(entry(`"file"`, `"File": "helm", "file"`)) + "plugin: []\n\"a b\": 1\n",
			[]string{
				"plugin: unknown field; expected one of " + rootNames, `"a b": unknown field; expected one of ` + rootNames,
				"plugins[0].File: unknown field; expected one of " + entryNames,
			},
		},
		"twice": {
			"which one is meant?", document(entry(`"file"`, `"file": "other", "file"`)) + "plugins: []\n",
			[]string{"plugins: appears twice; leave one of them", "plugins[0].file: appears twice; leave one of them"},
		},
		"types of values": {
			"all of them", document(`5`, entry(`"helm"`, `true`, `"v1"`, `1.10`, `["example.org/helm"]`, `{}`, `"`+digits+`"`, `null`)),
			[]string{
				"plugins[0]: expected an object, but found 5, which is a text only with quotes",
				"plugins[1].file: expected a text, but found true, which is a text only with quotes",
				"plugins[1].name: expected a text, but found true, which is a text only with quotes",
				"plugins[1].version: expected a text, but found 1.10, which is a text only with quotes",
				"plugins[1].types: expected a list, but found an object", "plugins[1].sha256: expected a text, but found nothing",
			},
		},
		"missing in an entry": {
			"one complaint for each", document("{}"),
			[]string{
				"plugins[0].file: is missing; expected a text", "plugins[0].name: is missing; expected a text",
				"plugins[0].version: is missing; expected a text", "plugins[0].types: is missing; expected a list",
				"plugins[0].sha256: is missing; expected a text",
			},
		},
		"alias": {
			"a small text must stay small", document("&a "+entry(), "*a"),
			[]string{"plugins[1]: expected an object, but found a YAML alias; write the value out"},
		},
		"tagged collections": {
			"a tag makes a value something else", document(entry(`["example.org/helm"]`, `!!set ["example.org/helm"]`), "!!omap "+entry()),
			[]string{
				"plugins[0].types: expected a list, but found a YAML tag; leave it out",
				"plugins[1]: expected an object, but found a YAML tag; leave it out",
			},
		},
		"tag":   {"a tag makes a value something else", document(entry(`"v1"`, `!!str "v1"`)), []string{"plugins[0].version: expected a text, but found a YAML tag; leave it out"}},
		"merge": {"what is merged is not seen", head + "plugins: []\n<<: {a: b}", []string{"expected texts as keys, but found <<, which is a text only with quotes"}},

		"path in file": {"files lie directly in the directory", document(entry(`"file": "helm"`, `"file": "../helm"`)), []string{"plugins[0].file: " + fileRule + `"../helm"`}},
		"hidden file":  {"hidden files are no plugins", document(entry(`"file": "helm"`, `"file": ".helm"`)), []string{"plugins[0].file: " + fileRule + `".helm"`}},
		"name":         {"names end up in objects", document(entry(`"name": "helm"`, `"name": "Helm/1"`)), []string{"plugins[0].name: " + nameRule + `"Helm/1"`}},
		"version":      {"it ends up in metrics", document(entry("v1", long)), []string{"plugins[0].version: expected a text of up to 253 bytes of UTF-8, but found " + shortened}},
		"no types":     {"a plugin that serves nothing", document(entry(`["example.org/helm"]`, `[]`)), []string{"plugins[0].types: expected 1 to 100 types of deploy items, but found 0"}},
		"type": {
			"each by its place", document(entry(`["example.org/helm"]`, `["", "b", "`+long+`"]`)),
			[]string{
				`plugins[0].types[0]: expected a type of deploy items, of 1 to 253 bytes of UTF-8, but found ""`,
				"plugins[0].types[2]: expected a type of deploy items, of 1 to 253 bytes of UTF-8, but found " + shortened,
			},
		},
		"sum in capitals": {"one form", document(entry("abcdef", "ABCDEF")), []string{"plugins[0].sha256: expected 64 lower-case hexadecimal digits, but found \"" + strings.ToUpper(digits) + `"`}},
		"short sum":       {"a part proves nothing", document(entry(digits, digits[2:])), []string{`plugins[0].sha256: expected 64 lower-case hexadecimal digits, but found "` + digits[2:] + `"`}},
		"odd sum":         {"other letters", document(entry("abcdef", "ghijkl")), []string{`plugins[0].sha256: expected 64 lower-case hexadecimal digits, but found "` + strings.ReplaceAll(digits, "abcdef", "ghijkl") + `"`}},

		"duplicates": {
			"with the first that has it", document(entry(), entry("example.org/helm", "example.org/other"), entry(`"file": "helm"`, `"file": "other"`, `"name": "helm"`, `"name": "other"`)),
			[]string{
				`plugins[1].file: "helm" is already that of plugins[0] ("helm")`, `plugins[1].name: "helm" is already that of plugins[0] ("helm")`,
				`plugins[2].types[0]: "example.org/helm" is already that of plugins[0] ("helm")`,
			},
		},
		"type twice": {"in one plugin", document(entry(`["example.org/helm"]`, `["a", "a"]`)), []string{`plugins[0].types[1]: "a" is already that of plugins[0] ("helm")`}},
		"hooked types": {
			"each by its place, also beside types", document(entry(`["example.org/helm"]`, `["a"], "hookedTypes": ["", "a", "b", "b", 1]`)),
			[]string{
				"plugins[0].hookedTypes[4]: expected a text, but found 1, which is a text only with quotes",
				`plugins[0].hookedTypes[0]: expected a type of deploy items, of 1 to 253 bytes of UTF-8, but found ""`,
				`plugins[0].hookedTypes[1]: "a" is among the types that the plugin serves, whose hooks need no entry; leave it out`,
				`plugins[0].hookedTypes[3]: "b" is already that of plugins[0].hookedTypes[2] ("helm")`,
			},
		},
		"no types and no hooks": {
			"a plugin that does nothing", document(entry(`["example.org/helm"]`, `[], "hookedTypes": []`)),
			[]string{"plugins[0].types: expected 1 to 100 types of deploy items, but found 0"},
		},
		"hooked types that are no list": {"null is none", document(entry(`["example.org/helm"]`, `["a"], "hookedTypes": null`)), []string{"plugins[0].hookedTypes: expected a list, but found nothing"}},
		"too many hooked types": {
			"a bound", document(entry(`["example.org/helm"]`, `[], "hookedTypes": [`+numbered(101)+`]`)),
			[]string{"plugins[0].hookedTypes: expected 0 to 100 types of deploy items, but found 101"},
		},
		"too many types": {"a bound", document(entry(`["example.org/helm"]`, `[`+numbered(101)+`]`)), []string{"plugins[0].types: expected 1 to 100 types of deploy items, but found 101"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := lockfile.Parse("plugins.lock", []byte(test.text))
			var wrong *lockfile.Error
			if !errors.As(err, &wrong) || file != nil {
				t.Fatalf("%s: expected an Error, but found %v", test.reason, err)
			}
			want := "plugins.lock: " + strings.Join(test.want, "\nplugins.lock: ")
			if diff := cmp.Diff(want, err.Error()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}

// numbered returns so many different texts, as items of a list.
func numbered(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("t%d", i)
	}
	return strings.Join(items, ", ")
}

func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	_, err := lockfile.Parse("plugins.lock", []byte(head+"plugins: ["+numbered(150)+"]"))
	var wrong *lockfile.Error
	if !errors.As(err, &wrong) || len(wrong.Problems) != 100 || !wrong.More {
		t.Fatalf("expected the first hundred, but found %v", err)
	}
	if !strings.HasSuffix(err.Error(), "\nplugins.lock: there are more errors than these 100") {
		t.Errorf("expected it to say so, but found %v", err)
	}
}

// What cannot be locked together is not written either.
func TestNewErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		plugins []lockfile.Plugin
		want    string
	}{
		"same type":      {"an item would reach either", []lockfile.Plugin{helm, {File: "other", Name: "other", Types: helm.Types}}, `plugins[1].types[0]: "example.org/helm" is already that of plugins[0] ("helm")`},
		"binary version": {"no text", []lockfile.Plugin{{File: "a", Name: "a", Version: "\xff", Types: []string{"a"}}}, `plugins[0].version: expected a text of up to 253 bytes of UTF-8, but found "\xff"`},
		"binary type":    {"no text", []lockfile.Plugin{{File: "a", Name: "a", Types: []string{"\xff"}}}, `plugins[0].types[0]: expected a type of deploy items, of 1 to 253 bytes of UTF-8, but found "\xff"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := lockfile.New(test.plugins)
			var wrong *lockfile.Error
			if !errors.As(err, &wrong) || file != nil || err.Error() != "the lock file to be: "+test.want {
				t.Errorf("%s: expected %q, but found: %v", test.reason, test.want, err)
			}
		})
	}
}
