package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDocument(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason, values string
		want           string // the rows
		err            string
	}{
		"scalars": {
			reason: "defaults are shown as JSON", values: "# A name.\na: \"\"\n# How many,\n# at most.\nb: 3\n",
			want: "| `a` | `\"\"` | A name. |\n| `b` | `3` | How many, at most. |\n",
		},
		"objects": {
			reason: "they are values if they are described", values: "a:\n  # Inner.\n  b: true\n# As a whole.\nc: {d: [e]}\n",
			want: "| `a.b` | `true` | Inner. |\n| `c` | `{\"d\":[\"e\"]}` | As a whole. |\n",
		},
		"title": {
			reason: "it is about the file", values: "# The values.\n\n# A name.\na: x\n",
			want: "| `a` | `\"x\"` | A name. |\n",
		},
		"bar": {
			reason: "it would end the column", values: "# One | two.\na: x\n", want: "| `a` | `\"x\"` | One \\| two. |\n",
		},
		"no comment": {
			reason: "each value has one", values: "a:\n  b: 1\n", err: "values.yaml: a.b has no comment",
		},
		"nothing": {
			reason: "an object without values has one, too", values: "a: {}\n", err: "values.yaml: a has no comment",
		},
		"a list": {reason: "values are an object", values: "- a\n", err: "expected an object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := document([]byte(test.values))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("%s: expected %q, but found: %v", test.reason, test.err, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("| Value | Default | Meaning |\n|---|---|---|\n"+test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}

func TestInsert(t *testing.T) {
	t.Parallel()
	got, err := insert("a\n"+begin+"old\n"+end+"b\n", "new\n")
	if want := "a\n" + begin + "\nnew\n\n" + end + "b\n"; err != nil || got != want {
		t.Errorf("expected %q, but found %q, %v", want, got, err)
	}
	if _, err := insert("a\n"+begin+"b\n", "new\n"); err == nil {
		t.Error("expected an error for a text without an end of the list")
	}
}
