package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRun checks a small repository with one breach of each rule, which its exceptions allow except for one.
func TestRun(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"go.mod":         "module example.org/house\n\ngo 1.26\n",
		"host/long/a.go": "package long\n\nvar A = 1\n" + strings.Repeat("\n// no code\nvar _ = 1", maxLines),
		// Each file uses the next one, in each way that counts; the last one uses the first.
		"host/knot/a.go": "package knot\n\nfunc a() { b() }\n",
		"host/knot/b.go": "package knot\n\nfunc b() { _ = c }\n",
		"host/knot/c.go": "package knot\n\nvar c = d\n",
		"host/knot/d.go": "package knot\n\nconst d = len(e{})\n",
		"host/knot/e.go": "package knot\n\ntype e [2]byte\n\nfunc (e) use() { f[int]{}.use() }\n",
		"host/knot/f.go": "package knot\n\ntype f[T any] struct{ field int }\n\nfunc (f[T]) use() { a() }\n",
		// These are no uses: fields, declarations of the same file, generated files, tests.
		"host/knot/g.go":      "package knot\n\nfunc g(of f[int]) { _ = of.field; h := 1; _ = h }\n",
		"host/knot/h.pb.go":   "package knot\n\nfunc h() { a(); g(f[int]{}) }\n",
		"host/knot/i_test.go": "package knot\n\n// nobody\nfunc i() { a() }\n",
		"sdk/said.go": "// What precedes the package clause.\n\n// Package said is by somebody.\npackage said\n\n" +
			"//nolint:all // that, which, what, who\nvar x = \"what that is which who\" + \"that which what\"\n",
		"sdk/testdata/x.go": "package x // nobody\n",
		"plugins/p.go":      "package plugins\n",
		"README.md":         "# One\n\nA page. That\nis `nobody` what\nit says, which is more.\n\nNo\nwords: who?\n",
		"CHANGELOG.md":      strings.Repeat("nothing ", 20) + "what",
		"test/house/exceptions.txt": "# For now.\nsize host/long: not yet\n\n" +
			"texts host/knot: not yet\npage README.md: not yet\n",
	}
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	ok, err := run(root, &out)
	if err != nil || ok {
		t.Fatalf("expected breaches, but found %v, %v", ok, err)
	}
	want := `circle host/knot: 6 files use one another in a circle, at most 5
  a.go b.go c.go d.go e.go f.go
comments sdk: 0.0 relative pronouns per 1,000 words, at most 20; words for persons: 1, none allowed
  sdk/said.go:3: Package said is by somebody.
texts sdk: 800.0 relative pronouns per 1,000 words, at most 20; words for persons: 0, none allowed
  sdk/said.go:7: what that is which who
texts host/knot: is in order now; remove it from test/house/exceptions.txt
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	exceptions := filepath.Join(root, exceptionsFile)
	allowed := "size host/long: x\ncircle host/knot: x\ncomments sdk: x\ntexts sdk: x\npage README.md: x\n"
	if err := os.WriteFile(exceptions, []byte(allowed), 0o644); err != nil {
		t.Fatal(err)
	}
	if ok, err := run(root, &out); err != nil || !ok {
		t.Errorf("expected order with exceptions, but found %v, %v", ok, err)
	}
	if err := os.WriteFile(exceptions, []byte("size host/long: \n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := run(root, &out); err == nil {
		t.Error("expected an error of an exception without a reason, but found none")
	}
}

func TestProse(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("word ", 200)
	for name, c := range map[string]struct {
		text string
		want []breach
	}{
		"none":                    {text: "Subject, verb, object. It's 3 noun-phrases."},
		"as many as allowed":      {text: many + "that which what who"},
		"few words, few pronouns": {text: "That which is."},
		"parts of words":          {text: "Whatsoever that-way thereof."},
		"the sentences with most": {text: "A\nb. This\nis what who\nand\nwhich; that: done", want: []breach{{
			rule: ruleTexts, place: "x",
			figure:  "400.0 relative pronouns per 1,000 words, at most 20; words for persons: 0, none allowed",
			details: []string{"f:8: This is what who and which;", "f:11: that:"},
		}}},
		"persons": {text: "He is\n\nhim", want: []breach{{
			rule: ruleTexts, place: "x",
			figure:  "0.0 relative pronouns per 1,000 words, at most 20; words for persons: 2, none allowed",
			details: []string{"f:7: He is him"},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &prose{}
			p.add("f", 7, c.text)
			if diff := cmp.Diff(c.want, p.check(ruleTexts, "x"), cmp.AllowUnexported(breach{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
