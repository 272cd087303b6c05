package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const tests = `package shop

// TestSell sells.
// Rule (manifest.md#shop, /thorns): A thorn is free.
// Rule (manifest.md#shop): A rose
// has a price.
//
// It takes a while.
func TestSell(t *testing.T) {
	for name := range map[string]int{
		// Rule (manifest.md#shop): Two roses have two prices.
		"two roses": 2,
		// Rule (manifest.md#the-garden, TestSell/in_vain): No rose has no price.
		"none": 0,
	} {
	}
}
`

// repository writes a small repository with a file of tests and all pages.
func repository(t *testing.T, tests string) (root string) {
	t.Helper()
	root = t.TempDir()
	files := map[string]string{"host/shop/shop_test.go": tests}
	for _, source := range sources {
		files[source+"/doc.go"] = "package x\n"
	}
	for _, name := range pages {
		files["docs/"+name] = "# Other\n"
	}
	files["docs/manifest.md"] = "# Roses\n\n```\n# no heading\n```\n\n## The garden\n\n## Shop\n"
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestPage(t *testing.T) {
	t.Parallel()
	root := repository(t, tests)
	if err := run(root, ""); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	want := intro + `
## [Roses](../docs/manifest.md)

### [The garden](../docs/manifest.md#the-garden)

| rule | test |
|---|---|
| No rose has no price. | ` + "`host/shop TestSell/in_vain`" + ` |

### [Shop](../docs/manifest.md#shop)

| rule | test |
|---|---|
| A thorn is free. | ` + "`host/shop TestSell/thorns`" + ` |
| A rose has a price. | ` + "`host/shop TestSell`" + ` |
| Two roses have two prices. | ` + "`host/shop TestSell/two_roses`" + ` |
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestWrongRules(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ tests, want string }{
		"no section":   {"// Rule (manifest.md#bees): A.\nfunc TestA() {}", "no section manifest.md#bees"},
		"no page":      {"// Rule (bees.md#bees): A.\nfunc TestA() {}", "no section bees.md#bees"},
		"no sentence":  {"// Rule (manifest.md#shop)\nfunc TestA() {}", "expected a page"},
		"a bar":        {"// Rule (manifest.md#shop): A|b.\nfunc TestA() {}", `must not contain "|"`},
		"no test":      {"// Rule (manifest.md#shop): A.\nfunc a() {}", "a is no test"},
		"nowhere":      {"// Rule (manifest.md#shop): A.\nvar a = 1", "at no test"},
		"no subtest":   {"func TestA() {\n// Rule (manifest.md#shop): A.\n}", "no name of a subtest"},
		"the same one": {strings.Repeat("// Rule (manifest.md#shop): A.\nfunc TestA() {}\n", 2), "has this rule, too"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := run(repository(t, "package shop\n\n"+tc.tests+"\n"), "")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("expected an error with %q, got %v", tc.want, err)
			}
		})
	}
}

func TestRan(t *testing.T) {
	t.Parallel()
	event := func(action, test string) string {
		return `{"Action":"` + action + `","Package":"` + module + `host/shop","Test":"` + test + `"}` + "\n"
	}
	all := event("run", "TestSell") + event("run", "TestSell/thorns") + event("run", "TestSell/two_roses") +
		event("run", "TestSell/in_vain")
	for name, tc := range map[string]struct{ output, want string }{
		"all":      {all, ""},
		"parts":    {strings.Replace(all, "thorns", "thorns/a", 1), ""},
		"skipped":  {event("run", "TestSell") + event("skip", "TestSell"), ""},
		"one less": {strings.Replace(all, "in_vain", "x", 1), "TestSell/in_vain did not run"},
		"nothing":  {"", "TestSell/two_roses did not run"},
		"cut":      {`{"Action":`, "read the output of the tests"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := repository(t, tests)
			output := filepath.Join(root, "test.json")
			if err := os.WriteFile(output, []byte(tc.output), 0o644); err != nil {
				t.Fatal(err)
			}
			err := run(root, output)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("expected an error with %q, got %v", tc.want, err)
			}
		})
	}
}
