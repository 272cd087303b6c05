package settingsfile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/settingsfile"
	"github.com/pergola-deploy/pergola/sdk"
)

type document struct {
	metav1.TypeMeta `json:",inline"`

	Name  string   `json:"name"`
	Names []string `json:"names"`
	Cache struct {
		Files int `json:"files"`
	} `json:"cache"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, text string
		want         document
		problems     settingsfile.Problems
		unreadable   bool
	}{
		"YAML": {reason: "operators write YAML", text: "name: a\nnames: [b]\n", want: document{Name: "a", Names: []string{"b"}}},
		"JSON": {reason: "the host hands JSON over", text: `{"name":"a"}`, want: document{Name: "a"}},
		"unknown fields": {
			reason: "all are reported, and the rest is read, so that it can be checked as well", text: "name: a\nnaem: b\ncache: {dir: /}\n",
			want:     document{Name: "a"},
			problems: settingsfile.Problems{{Message: `unknown field "cache.dir"`}, {Message: `unknown field "naem"`}},
		},
		"case": {
			reason: "a field has one spelling", text: "Name: a\n", problems: settingsfile.Problems{{Message: `unknown field "Name"`}},
		},
		"type": {
			reason: "the field is named", text: "cache: {files: many}\n", unreadable: true,
			problems: settingsfile.Problems{{Field: "cache.files", Message: "expected int, but found string"}},
		},
		"object": {
			reason: "no Go type is of use to an operator", text: "cache: 5\n", unreadable: true,
			problems: settingsfile.Problems{{Field: "cache", Message: "expected an object, but found number"}},
		},
		"list": {
			reason: "nor is that of a list", text: "names: a\n", unreadable: true,
			problems: settingsfile.Problems{{Field: "names", Message: "expected a list, but found string"}},
		},
		"other document": {
			reason: "a list is no document", text: "[]", unreadable: true, problems: settingsfile.Problems{{Message: "expected an object, but found array"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got document
			problems, ok := settingsfile.Decode([]byte(c.text), &got)
			if diff := cmp.Diff(c.problems, problems); diff != "" || ok == c.unreadable {
				t.Errorf("%s: found ok %t and problems (-want +got):\n%s", c.reason, ok, diff)
			}
			if diff := cmp.Diff(c.want, got); ok && diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

func TestDecodeRefusesWhatIsNoYAML(t *testing.T) {
	t.Parallel()
	for reason, text := range map[string]string{"one of two values would be lost": "name: a\nname: b\n", "garbage is no document": "{"} {
		problems, ok := settingsfile.Decode([]byte(text), &document{})
		if ok || len(problems) != 1 || problems[0].Field != "" {
			t.Errorf("%s: found ok %t and problems %v", reason, ok, problems)
		}
	}
}

func TestCheckKind(t *testing.T) {
	t.Parallel()
	var problems settingsfile.Problems
	problems.CheckKind(metav1.TypeMeta{APIVersion: "example.org/v1", Kind: "A"}, "example.org/v1", "A")
	if len(problems) > 0 {
		t.Errorf("expected no problem, but found %v", problems)
	}
	problems.CheckKind(metav1.TypeMeta{APIVersion: "v1"}, "example.org/v1", "A")
	want := settingsfile.Problems{
		sdk.Problem{Field: "apiVersion", Message: `expected example.org/v1, but found "v1"`}, sdk.Problem{Field: "kind", Message: `expected A, but found ""`},
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
