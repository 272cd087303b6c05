package pluginconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/pluginconfig"
)

type settings struct {
	metav1.TypeMeta `json:",inline"`

	Name  string   `json:"name"`
	Names []string `json:"names"`
	Cache struct {
		Files int                   `json:"files"`
		Size  pluginconfig.Amount   `json:"size"`
		Age   pluginconfig.Duration `json:"age"`
	} `json:"cache"`
}

func load(document string) (settings, []sdk.Problem) {
	s := settings{TypeMeta: metav1.TypeMeta{APIVersion: "example.org/v1", Kind: "A"}, Name: "default"}
	s.Cache.Files, s.Cache.Size, s.Cache.Age = 7, pluginconfig.AmountOf("7Ki"), pluginconfig.DurationOf("7s")
	problems := pluginconfig.Load([]byte(document), &s, &s.TypeMeta, func(p *pluginconfig.Problems) {
		p.Number("cache.files", s.Cache.Files, 10)
		p.Amount("cache.size", s.Cache.Size, pluginconfig.AmountOf("1Ki"), pluginconfig.AmountOf("1Mi"))
		p.Duration("cache.age", s.Cache.Age, 1, 1e10)
		for i, name := range s.Names {
			if name == "" {
				p.Add("names["+string(rune('0'+i))+"]", "expected a name")
			}
		}
	})
	return s, problems
}

const head = "apiVersion: example.org/v1\nkind: A\n"

func TestLoad(t *testing.T) {
	t.Parallel()
	defaults, _ := load("")
	named := defaults
	named.Name, named.Names = "a", []string{"b"}
	for text, want := range map[string]settings{
		"": defaults, head: defaults, head + "cache:\nname:\n": defaults,
		head + "cache: {files: null, size: null, age: null}\n":                defaults,
		head + "name: a\nnames: [b]\n":                                        named,
		`{"apiVersion":"example.org/v1","kind":"A","name":"a","names":["b"]}`: named,
	} {
		got, problems := load(text)
		if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
			t.Errorf("%s: problems %v, settings: -want +got:\n%s", text, problems, diff)
		}
	}
}

func TestLoadReports(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]sdk.Problem{
		head + "naem: b\nName: c\ncache: {dir: /, files: 0}\n": {
			{Field: "Name", Message: "unknown field; did you mean name?"}, {Field: "cache.dir", Message: "unknown field"},
			{Field: "naem", Message: "unknown field; did you mean name?"},
			{Field: "cache.files", Message: "expected a number from 1 to 10, but found 0"},
		},
		// The consequences of a wrong type are not reported.
		head + "name: 5\nnames: [a, 5, '']\ncache: {files: many, size: 5, age: 11s}\n": {
			{Field: "cache.files", Message: "expected a whole number, but found a text"},
			{Field: "cache.size", Message: "expected a text, but found a number"},
			{Field: "name", Message: "expected a text, but found a number"},
			{Field: "names[1]", Message: "expected a text, but found a number"},
			{Field: "cache.age", Message: `expected a time from 1ns to 10s, such as 90s or 1h30m, but found "11s"`},
			{Field: "names[2]", Message: "expected a name"},
		},
		head + "cache: 5\n": {{Field: "cache", Message: "expected an object, but found a number"}},
		"apiVersion: example.org/v2\n": {
			{Field: "apiVersion", Message: `expected example.org/v1, but found "example.org/v2"`},
			{Field: "kind", Message: `expected A, but found ""`},
		},
		"[]": {{Message: "expected an object, but found a list"}},
	} {
		_, problems := load(text)
		if diff := cmp.Diff(want, problems); diff != "" {
			t.Errorf("%s: -want +got:\n%s", text, diff)
		}
	}
	for _, text := range []string{"name: a\nname: b\n", "{"} {
		_, problems := load(text)
		if len(problems) != 1 || problems[0].Field != "" || !strings.HasPrefix(problems[0].Message, "expected YAML or JSON") {
			t.Errorf("%s: found problems %v", text, problems)
		}
	}
}

// An unknown field or a wrong type hides no wrong value elsewhere.
func TestCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]sdk.Problem{
		`{"files":1}`: nil,
		`{"files":0,"age":"1s","names":5}`: {
			{Field: "names", Message: "expected a text, but found a number"}, {Field: "age", Message: "unknown field"},
			{Field: "files", Message: "expected a number from 1 to 10, but found 0"},
		},
		`[]`: {{Message: "expected an object, but found a list"}},
	} {
		var part struct {
			Files int    `json:"files"`
			Names string `json:"names"`
		}
		problems := pluginconfig.Check([]byte(text), &part, func(p *pluginconfig.Problems) {
			p.Number("files", part.Files, 10)
		})
		if diff := cmp.Diff(want, problems); diff != "" {
			t.Errorf("%s: -want +got:\n%s", text, diff)
		}
	}
}
