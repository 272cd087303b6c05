package jsonpath_test

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/jsonpath"
)

type fields = map[string]any

func example() fields {
	return fields{
		"data": fields{"foo": "bar", "a.b": "dotted", "none": nil, "empty": ""},
		"list": []any{fields{"n": int64(1), "t": "x"}, fields{"n": int64(2), "t": "y"}},
		"holes": []any{
			fields{"in": []any{}}, fields{"in": []any{"a", "b"}}, fields{"in": nil}, fields{},
		},
		"mixed":  []any{fields{"v": int64(1)}, fields{"v": "1"}},
		"floats": []any{fields{"v": 1.5}, fields{"v": int64(2)}},
		"number": int64(9007199254740993), "largest": []any{fields{"v": int64(math.MaxInt64)}},
		"z": fields{"c": "3", "a": "1", "b": "2"},
	}
}

// TestPath: the value at a path, or none.
func TestPath(t *testing.T) {
	t.Parallel()
	in := example()
	for name, c := range map[string]struct {
		path string
		want any
	}{
		"bare":                  {".data.foo", "bar"},
		"braces":                {"{.data.foo}", "bar"},
		"no dot":                {"data.foo", "bar"},
		"root":                  {"$.data.foo", "bar"},
		"map":                   {".z", in["z"]},
		"whole":                 {"{@}", in},
		"dotted key":            {`.data.a\.b`, "dotted"},
		"quoted key":            {`{.data['foo']}`, "bar"},
		"several":               {".list[*].n", []any{int64(1), int64(2)}},
		"filter":                {".list[?(@.n==2)].t", "y"},
		"text filter":           {`.list[?(@.t!="x")].n`, int64(2)},
		"exists filter":         {`.holes[?(@.in[1])].in[0]`, "a"},
		"mixed numbers":         {".floats[?(@.v>1)].v", []any{1.5, int64(2)}},
		"beyond all integers":   {".largest[?(@.v<9223372036854775808)].v", int64(math.MaxInt64)},
		"slice":                 {".list[0:2].t", []any{"x", "y"}},
		"last":                  {".list[-1].t", "y"},
		"large step":            {".list[0:2:9223372036854775807].t", "x"},
		"union in its order":    {".list[1,0].t", []any{"y", "x"}},
		"map in order of keys":  {".z.*", []any{"1", "2", "3"}},
		"recursive":             {"{..c}", "3"},
		"empty list among many": {".holes[*].in[*]", []any{"a", "b"}},
		"precise integer":       {".number", int64(9007199254740993)},
		"text":                  {"n={.number}!", "n=9007199254740993!"},
		"two":                   {"{.z.a}{.z.b}", "12"},
		"JSON in text":          {"z: {.z}", `z: {"a":"1","b":"2","c":"3"}`},
		"range":                 {"{range .list[*]}{.t}={.n};{end}", "x=1;y=2;"},
		"range of one":          {"{range .list[?(@.n==1)]}{.n}{end}", "1"},
		"nested ranges":         {"{range .holes[1]}<{range .in[*]}{@},{end}>{end}", "<a,b,>"},
		"open range":            {"{range .list[*]}{.t}", "xy"},
		"empty text":            {".data.empty", ""},
		"null among several":    {".data['none','foo']", []any{nil, "bar"}},
		"null alone":            {".data.none", nil},
		"missing":               {".data.bar", nil},
		"missing parent":        {".status.a.b", nil},
		"below text":            {".data.foo.bar", nil},
		"missing text":          {"n={.nothing}", nil},
		"null in text":          {"n={.data.none}", nil},
		"empty range":           {"{range .status.list[*]}{[0]}{end}", nil},
		"index of a map":        {".data[0]", nil},
		"out of range":          {".list[5].n", nil},
		"slice too far":         {".list[0:3].t", nil},
		"before start":          {".list[-3].n", nil},
		"backwards":             {".list[1:0].n", nil},
		"bad step":              {".list[0:2:0].n", nil},
		"number and text":       {".mixed[?(@.v==1)].v", nil},
		"filter on map":         {".data[?(@.v==1)]", nil},
		"bad operator":          {".list[?(@.n=!2)]", nil},
	} {
		path, err := jsonpath.Parse(c.path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, found, err := path.Value(in)
		if diff := cmp.Diff(c.want, got); err != nil || found != (c.want != nil) || diff != "" {
			t.Errorf("%s: found is %t, error is %v, -want +got:\n%s", name, found, err, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"": "is empty", "  ": "is empty", "{.a": "unclosed", ".list[?(": "unterminated", "{foo}": `unknown word "foo"`,
		"{.list[?(@.a==b)]}": `unknown word "b"`, "{.a}{end}": "nothing to end",
		strings.Repeat(".a", 1025): "longer than 2048",
	} {
		if _, err := jsonpath.Parse(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: expected an error with %q, but found %v", path, want, err)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][]any{
		".holes[1].in": {[]any{"a", "b"}}, ".list[*].n": {int64(1), int64(2)}, "{.z.a}-{.z.b}": {"1-2"}, ".status": nil,
	} {
		parsed, err := jsonpath.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parsed.Find(example())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v, -want +got:\n%s", path, err, diff)
		}
	}
	if got, err := (jsonpath.Path{}).Find(example()); err != nil || got != nil {
		t.Errorf("the zero path leads to nothing, but found %v and %v", got, err)
	}
}

// TestTooMuch: none of these may take long or much memory; without bounds each of them takes minutes or the memory of
// the process.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	deep := any("end")
	for range 1500 {
		deep = fields{"a": deep, "b": "padding"}
	}
	var wide []any
	for i := range 20_000 {
		wide = append(wide, fields{"n": int64(i)})
	}
	in := fields{"deep": deep, "wide": wide, "big": strings.Repeat("x", 2<<20), "list": []any{"x"}}
	for name, text := range map[string]string{
		"recursion of recursion": "{..a..a..a..a}",
		"union of unions":        ".deep" + strings.Repeat("['a','a']", 100),
		"range of ranges":        "{range .deep}" + strings.Repeat("{range ['a','a']}", 100),
		"many results":           ".wide[*]",
		"filters":                ".wide[?(@['n','n','n','n','n','n','n','n','n','n'].x==1)]",
		"a large value":          ".big",
		"values in one another":  ".deep..a",
		"a large text":           "{.big} {.big}",
		"a growing text":         "{range .wide[*]}" + strings.Repeat("x", 500) + "{end}",
	} {
		path, err := jsonpath.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, _, err := path.Value(in); !errors.Is(err, jsonpath.ErrTooMuch) {
			t.Errorf("%s: expected that it is too much, but found %v", name, err)
		}
	}
}

func TestPathIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	path, err := jsonpath.Parse("{range .list[*]}{.t}{.n}{end}")
	if err != nil {
		t.Fatal(err)
	}
	in := example()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 100 {
				if got, _, err := path.Value(in); err != nil || got != "x1y2" {
					t.Errorf("expected x1y2, but found %v and %v", got, err)
				}
			}
		})
	}
	group.Wait()
}

func TestEqual(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		a, b   any
		want   bool
	}{
		{"an integer may be written with a fraction", int64(1), 1.0, true},
		{"integers keep their precision", int64(9007199254740993), int64(9007199254740992), false},
		{"also beside numbers with a fraction", int64(9007199254740993), 9007199254740992.0, false},
		{"the largest integer is no power of two", int64(9223372036854775807), 9223372036854775808.0, false},
		{"the smallest one is", int64(-9223372036854775808), -9223372036854775808.0, true},
		{"a fraction makes a difference", int64(1), 1.5, false},
		{"below zero, too", int64(-1), -1.5, false},
		{"huge numbers are less than nothing else", int64(1), -1e300, false},
		{"a text is no number", "1", int64(1), false},
		{"nor is a truth value", true, int64(1), false},
		{"null equals null", nil, nil, true},
		{"and nothing else", nil, "", false},
		{"maps are equal by their entries", fields{"a": int64(1), "b": nil}, fields{"b": nil, "a": 1.0}, true},
		{"of which null is one", fields{"a": nil}, fields{"b": nil}, false},
		{"and all count", fields{"a": "x"}, fields{"a": "x", "b": "y"}, false},
		{"lists are equal by their elements", []any{"a", int64(1)}, []any{"a", int64(1)}, true},
		{"in their order", []any{"a", "b"}, []any{"b", "a"}, false},
		{"all of them", []any{"a"}, []any{"a", "b"}, false},
		{"an empty list is no empty map", []any{}, fields{}, false},
	} {
		for _, pair := range [][2]any{{c.a, c.b}, {c.b, c.a}} {
			if got := jsonpath.Equal(pair[0], pair[1]); got != c.want {
				t.Errorf("%s: %v and %v: equal is %t", c.reason, pair[0], pair[1], got)
			}
		}
	}
}
