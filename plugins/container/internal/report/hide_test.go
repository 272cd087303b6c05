package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/redact"
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
	for name, c := range map[string]struct{ reason, text, said, want string }{
		"text": {reason: "it may be no document", text: "hunter22: {", said: "is hunter22: {", want: "is ***"},
		"JSON": {reason: "as imports are", text: `{"a":[{"b":"hunter22"}]}`, said: "is hunter22", want: "is ***"},
		"YAML": {
			reason: "as the content of a Target may be", text: kubeconfig, said: "is hunter22", want: "is ***",
		},
		"text in text": {
			reason: "a kubeconfig in a Target", text: in("content", in("kubeconfig", kubeconfig)), said: "is hunter22",
			want: "is ***",
		},
		"list in text": {
			reason: "a list is a document, too", text: in("users", `["hunter22"]`), said: "is hunter22", want: "is ***",
		},
		"JSON in YAML": {
			reason: "and the other way round", text: "a: '{\"b\":\"hunter22\"}'\n", said: "is hunter22", want: "is ***",
		},
		"slashes": {
			reason: "some JSON is no YAML for the library", text: `{"a":"b\/hunter22","c":"\ud83d\ude00"}`,
			said: "is b/hunter22", want: "is ***",
		},
		"long numbers": {
			reason: "no digit is lost", text: `{"a":90071992547409930001}`, said: "is 90071992547409930001", want: "is ***",
		},
		"numbers": {
			reason: "in YAML as well", text: "a: 9007199254740993\n", said: "is 9007199254740993", want: "is ***",
		},
		"other spelling": {
			reason: "a program prints what is meant", text: "a: 1_234_567\n", said: "is 1234567", want: "is ***",
		},
		"short numbers": {
			reason: "a port is of use", text: "a: 65535\nb: .inf\nc: true\nd: ~\n", said: "port 65535", want: "port 65535",
		},
		"dates": {reason: "they are texts", text: "a: 2026-05-04\n", said: "is 2026-05-04", want: "is ***"},
		"binary": {
			reason: "a program prints what is meant", text: "a: !!binary aHVudGVyMjI=\n", said: "is hunter22", want: "is ***",
		},
		"twice": {
			reason: "either may be told", text: "a: hunter22\na: hunter33\n", said: "hunter22 or hunter33", want: "*** or ***",
		},
		"names": {
			reason: "a message is of use with names of fields", text: "database: database\n", said: "no database",
			want: "no database",
		},
		"names in text": {
			reason: "and so is one with those", text: in("a", "database: database\n"), said: "no database",
			want: "no database",
		},
		"aliases": {
			reason: "what is repeated is hidden where it stands",
			text:   "a: &a [hunter22]\nb: [" + strings.Repeat("*a,", 100_000) + "]\n", said: "is hunter22", want: "is ***",
		},
		"name by alias": {
			reason: "a value is no name for being repeated", text: "a: &a hunter22\n*a : b\n", said: "is hunter22",
			want: "is ***",
		},
		"deep": {
			reason: "whatever is around it", text: strings.Repeat("[", 9000) + `"hunter22"` + strings.Repeat("]", 9000),
			said: "is hunter22", want: "is ***",
		},
		"deep YAML": {
			reason: "so it is in YAML",
			text:   "- a:\n    " + strings.Repeat("[", 9000) + `hunter22` + strings.Repeat("]", 9000), said: "is hunter22",
			want: "is ***",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hidden := redact.New(nil)
			given{learn: hidden.Learn, publish: hidden.Publish}.addText(c.text, 0)
			if found := hidden.Hide(c.said); found != c.want {
				t.Errorf("%s: expected %q, but found %q", c.reason, c.want, found)
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
	for name, c := range map[string]struct{ reason, text string }{
		"deep": {
			reason: "no part is kept with each of those around it",
			text:   strings.Repeat(`{"a":[`, 2000) + `"` + strings.Repeat("x", 100<<10) + `"` + strings.Repeat("]}", 2000),
		},
		"aliases": {
			reason: "nothing is repeated",
			text:   "a: &a " + strings.Repeat("x", 64<<10) + "\nb: [" + strings.Repeat("*a,", 9000) + "]\n",
		},
		"texts": {reason: "some levels are looked into, not all", text: texts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			size := 0
			learn := func(value any) { size += len(fmt.Sprint(value)) }
			given{learn: learn, publish: func(...string) {}}.addText(c.text, 0)
			if size > 10*len(c.text) {
				t.Errorf("%s: expected not more than ten times %d bytes, but found %d", c.reason, len(c.text), size)
			}
		})
	}
}
