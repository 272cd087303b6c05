package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/redact"
)

// TestGiven: what stands in what a container was given is hidden wherever it stands.
func TestGiven(t *testing.T) {
	t.Parallel()
	kubeconfig := "users:\n- name: admin\n  user: {token: hunter22}\n"
	in := func(field, text string) string {
		document, err := json.Marshal(map[string]string{field: text})
		if err != nil {
			t.Fatal(err)
		}
		return string(document)
	}
	const isHidden = "is hunter22"
	deep := func(text string) string { return strings.Repeat("[", 9000) + text + strings.Repeat("]", 9000) }
	for name, c := range map[string]struct{ text, said, want string }{
		"text":            {"hunter22: {", "is hunter22: {", "is ***"},
		"JSON of imports": {`{"a":[{"b":"hunter22"}]}`, isHidden, "is ***"},
		"YAML":            {kubeconfig, isHidden, "is ***"},
		"text in text":    {in("content", in("kubeconfig", kubeconfig)), isHidden, "is ***"},
		"list in text":    {in("users", `["hunter22"]`), isHidden, "is ***"},
		"JSON in YAML":    {"a: '{\"b\":\"hunter22\"}'\n", isHidden, "is ***"},
		// Some JSON is no YAML for the library.
		"slashes":        {`{"a":"b\/hunter22","c":"\ud83d\ude00"}`, "is b/hunter22", "is ***"},
		"long numbers":   {`{"a":90071992547409930001}`, "is 90071992547409930001", "is ***"},
		"numbers":        {"a: 9007199254740993\n", "is 9007199254740993", "is ***"},
		"other spelling": {"a: 1_234_567\n", "is 1234567", "is ***"},
		"short numbers":  {"a: 65535\nb: .inf\nc: true\nd: ~\n", "port 65535", "port 65535"},
		"dates":          {"a: 2026-05-04\n", "is 2026-05-04", "is ***"},
		"binary":         {"a: !!binary aHVudGVyMjI=\n", isHidden, "is ***"},
		"twice":          {"a: hunter22\na: hunter33\n", "hunter22 or hunter33", "*** or ***"},
		"names":          {"database: database\n", "no database", "no database"},
		"names in text":  {in("a", "database: database\n"), "no database", "no database"},
		"aliases":        {"a: &a [hunter22]\nb: [" + strings.Repeat("*a,", 100_000) + "]\n", isHidden, "is ***"},
		"name by alias":  {"a: &a hunter22\n*a : b\n", isHidden, "is ***"},
		"deep":           {deep(`"hunter22"`), isHidden, "is ***"},
		"deep YAML":      {"- a:\n    " + deep("hunter22"), isHidden, "is ***"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hidden := redact.New(nil)
			given{learn: hidden.Learn, publish: hidden.Publish}.addText(c.text, 0)
			if found := hidden.Hide(c.said); found != c.want {
				t.Errorf("expected %q, but found %q", c.want, found)
			}
		})
	}
}

// TestGivenDoesNotGrow: what is kept is about as large as what was given, however it is nested.
func TestGivenDoesNotGrow(t *testing.T) {
	t.Parallel()
	texts := "hunter22"
	for range 60 {
		texts = "a: |\n " + strings.ReplaceAll(texts, "\n", "\n ") + "\nb: x\n"
	}
	for name, text := range map[string]string{
		"deep":    strings.Repeat(`{"a":[`, 2000) + `"` + strings.Repeat("x", 100<<10) + `"` + strings.Repeat("]}", 2000),
		"aliases": "a: &a " + strings.Repeat("x", 64<<10) + "\nb: [" + strings.Repeat("*a,", 9000) + "]\n",
		"texts":   texts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			size := 0
			learn := func(value any) { size += len(fmt.Sprint(value)) }
			given{learn: learn, publish: func(...string) {}}.addText(text, 0)
			if size > 10*len(text) {
				t.Errorf("expected not more than ten times %d bytes, but found %d", len(text), size)
			}
		})
	}
}
