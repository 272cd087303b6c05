package jsonpath_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kubectl "k8s.io/client-go/util/jsonpath"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/jsonpath"
)

// FuzzFind: no path and no object makes finding panic or take long, and what was found is bounded.
func FuzzFind(f *testing.F) {
	for _, path := range []string{
		".data.foo", "{..a..b..a}", "{range .a[*]}{[0]}{end}", ".a['b','c'][0,0,0]", "{.a[?(@.n==2)].n}",
		"{.a[?(@.b[0])]}", "x{.a}y", "{", "[?(",
		"{.a[-1:9223372036854775807:9223372036854775807]}", "{.a[?(@..b<=1.5)]}", "{.a[-9223372036854775808]}",
		"{'quoted'}", "{true}{1}{1.5}", "{@}{$}{}", "..", "{end}",
	} {
		f.Add(path, []byte(`{"data":{"foo":"bar","n":null},"a":[{"n":2,"b":[1]},{"n":1.5,"b":[]},[[]],"x",null,true]}`))
	}
	f.Fuzz(func(t *testing.T, text string, document []byte) {
		path, err := jsonpath.Parse(text)
		if err != nil {
			return
		}
		var in map[string]any
		if utiljson.Unmarshal(document, &in) != nil {
			return
		}
		values, err := path.Find(in)
		if (err != nil && !errors.Is(err, jsonpath.ErrTooMuch)) || len(values) > 10_000 {
			t.Errorf("%q: found %d values and %v", text, len(values), err)
		}
		if _, _, err := path.Value(in); err != nil && !errors.Is(err, jsonpath.ErrTooMuch) {
			t.Errorf("%q: found %v", text, err)
		}
		again, err := path.Find(in)
		if diff := cmp.Diff(values, again); err == nil && diff != "" {
			t.Errorf("%q: found another time: -first +second:\n%s", text, diff)
		}
	})
}

// TestAgreesWithKubectl compares with kubectl's own evaluation on paths and objects without its faults: it drops values
// after an empty list, returns the values of maps in random order and takes texts apart.
func TestAgreesWithKubectl(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := map[string]any{"a": drawValue(t, 3), "b": drawValue(t, 3)}
		text := "{" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			".a", ".b", ".c", "[*]", "[0]", "[-1]", "[0:2]", "[1]", "[0,1]", "['a','b']", "[?(@.a==1)]", `[?(@.b!="x")]`,
			"[?(@.a)]", "..a", "[?(@.a<2)]",
		}), 1, 5).Draw(t, "steps"), "") + "}"
		want, wantFound := findWithKubectl(t, text, in)
		path, err := jsonpath.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := path.Find(in)
		if err != nil {
			t.Fatal(err)
		}
		if wantFound != (len(got) > 0) {
			t.Fatalf("%s in %v: kubectl found %v, but we %v", text, in, want, got)
		}
		if wantFound && !cmp.Equal(want, got) {
			t.Errorf("%s in %v: -kubectl +ours:\n%s", text, in, cmp.Diff(want, got))
		}
	})
}

// drawValue draws a value in which no map has two entries and no list is empty.
func drawValue(t *rapid.T, depth int) any {
	kinds := 2
	if depth > 0 {
		kinds = 5
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return int64(rapid.IntRange(0, 2).Draw(t, "number"))
	case 1:
		return rapid.SampledFrom([]string{"x", "y"}).Draw(t, "text")
	case 2:
		return nil
	case 3:
		return map[string]any{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"): drawValue(t, depth-1)}
	default:
		list := []any{}
		for range rapid.IntRange(1, 3).Draw(t, "length") {
			list = append(list, drawValue(t, depth-1))
		}
		return list
	}
}

func findWithKubectl(t *rapid.T, text string, in map[string]any) ([]any, bool) {
	path := kubectl.New("path").AllowMissingKeys(true)
	if err := path.Parse(text); err != nil {
		t.Fatal(err)
	}
	results, err := path.FindResults(in)
	if err != nil || len(results) != 1 {
		return nil, false
	}
	var values []any
	for _, result := range results[0] {
		values = append(values, result.Interface())
	}
	if len(values) == 0 || (len(values) == 1 && values[0] == nil) {
		return nil, false
	}
	return values, true
}

// TestTextAgreesWithKubectl compares texts, which kubectl prints.
func TestTextAgreesWithKubectl(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"a={.z.a} b={.number}", "{.list}", "x{.list[*]}", "{range .list[*]}{.t}{'\\t'}{.n}{'\\n'}{end}",
		"{.list[*].n}|{.data.empty}|{.floats[0].v}",
	} {
		path := kubectl.New("path")
		if err := path.Parse(text); err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := path.Execute(&want, example()); err != nil {
			t.Fatal(err)
		}
		ours, err := jsonpath.Parse("{''}" + text) // an expression alone would be a value and no text
		if err != nil {
			t.Fatal(err)
		}
		got, found, err := ours.Value(example())
		if err != nil || !found || got != want.String() {
			t.Errorf("%s: kubectl prints %q, but found %q, %t and %v", text, want.String(), got, found, err)
		}
	}
}
