package jsonpath_test

import (
	"errors"
	"fmt"
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

func TestPath(t *testing.T) {
	t.Parallel()
	in := example()
	for name, c := range map[string]struct {
		reason string
		path   string
		want   any
		found  bool
	}{
		"bare":   {reason: "a path needs no braces", path: ".data.foo", want: "bar", found: true},
		"braces": {reason: "a path may have braces", path: "{.data.foo}", want: "bar", found: true},
		"no dot": {reason: "nor a leading dot", path: "data.foo", want: "bar", found: true},
		"root":   {reason: "nor does it have to start at the root", path: "$.data.foo", want: "bar", found: true},
		"map":    {reason: "a value may be anything", path: ".z", want: in["z"], found: true},
		"whole":  {reason: "even the object as a whole", path: "{@}", want: in, found: true},
		"dotted key": {
			reason: "keys with dots are escaped as with kubectl", path: `.data.a\.b`, want: "dotted", found: true,
		},
		"quoted key": {reason: "or quoted", path: `{.data['foo']}`, want: "bar", found: true},
		"several": {
			reason: "several values are a list", path: ".list[*].n", want: []any{int64(1), int64(2)}, found: true,
		},
		"filter":      {reason: "filters work", path: ".list[?(@.n==2)].t", want: "y", found: true},
		"text filter": {reason: "also with text", path: `.list[?(@.t!="x")].n`, want: int64(2), found: true},
		"exists filter": {
			reason: "a filter may ask for what is there", path: `.holes[?(@.in[1])].in[0]`, want: "a", found: true,
		},
		"mixed numbers": {
			reason: "numbers are numbers, with a fraction or not", path: ".floats[?(@.v>1)].v", want: []any{1.5, int64(2)},
			found: true,
		},
		"large numbers": {
			reason: "a number beyond all integers is more than they are", path: ".largest[?(@.v<9223372036854775808)].v",
			want: int64(math.MaxInt64), found: true,
		},
		"slice": {reason: "slices work", path: ".list[0:2].t", want: []any{"x", "y"}, found: true},
		"last":  {reason: "so do negative indices", path: ".list[-1].t", want: "y", found: true},
		"step": {
			reason: "and steps, however large", path: ".list[0:2:9223372036854775807].t", want: "x", found: true,
		},
		"union": {reason: "unions keep their order", path: ".list[1,0].t", want: []any{"y", "x"}, found: true},
		"wildcard": {
			reason: "the values of a map come by their keys", path: ".z.*", want: []any{"1", "2", "3"}, found: true,
		},
		"recursive": {reason: "recursive descent works", path: "{..c}", want: "3", found: true},
		"empty list": {
			reason: "an empty list ends nothing but itself", path: ".holes[*].in[*]", want: []any{"a", "b"}, found: true,
		},
		"integer": {
			reason: "integers keep their precision", path: ".number", want: int64(9007199254740993), found: true,
		},
		"text": {
			reason: "a path with text around it is a text", path: "n={.number}!", want: "n=9007199254740993!", found: true,
		},
		"two": {reason: "two expressions are a text, too", path: "{.z.a}{.z.b}", want: "12", found: true},
		"JSON in text": {
			reason: "maps become JSON in a text", path: "z: {.z}", want: `z: {"a":"1","b":"2","c":"3"}`, found: true,
		},
		"range": {reason: "ranges repeat", path: "{range .list[*]}{.t}={.n};{end}", want: "x=1;y=2;", found: true},
		"range of one": {
			reason: "and are a text however often", path: "{range .list[?(@.n==1)]}{.n}{end}", want: "1", found: true,
		},
		"nested ranges": {
			reason: "within one another", path: "{range .holes[1]}<{range .in[*]}{@},{end}>{end}", want: "<a,b,>",
			found: true,
		},
		"open range": {reason: "a range may be left open", path: "{range .list[*]}{.t}", want: "xy", found: true},
		"empty":      {reason: "an empty text is a value", path: ".data.empty", want: "", found: true},
		"several nulls": {
			reason: "a null is one of several values", path: ".data['none','foo']", want: []any{nil, "bar"}, found: true,
		},
		"null":           {reason: "null alone is no value", path: ".data.none"},
		"missing":        {reason: "a missing key is no value", path: ".data.bar"},
		"missing parent": {reason: "nor is one below a missing key", path: ".status.a.b"},
		"below text":     {reason: "nor below a text", path: ".data.foo.bar"},
		"missing text":   {reason: "a text is incomplete without one of its values", path: "n={.nothing}"},
		"null text":      {reason: "null is no text either", path: "n={.data.none}"},
		"empty range":    {reason: "a range over nothing is nothing", path: "{range .status.list[*]}{[0]}{end}"},
		"index":          {reason: "an index that suits no map may suit the object later", path: ".data[0]"},
		"out of range":   {reason: "a list may grow", path: ".list[5].n"},
		"slice too far":  {reason: "a slice does not end beyond it", path: ".list[0:3].t"},
		"before start":   {reason: "at either end", path: ".list[-3].n"},
		"backwards":      {reason: "a slice goes forward", path: ".list[1:0].n"},
		"bad step":       {reason: "one by one or faster", path: ".list[0:2:0].n"},
		"other kind":     {reason: "a number and a text cannot be compared", path: ".mixed[?(@.v==1)].v"},
		"filter on map":  {reason: "a filter is for lists", path: ".data[?(@.v==1)]"},
		"bad operator":   {reason: "an operator may not exist", path: ".list[?(@.n=!2)]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := jsonpath.Parse(c.path)
			if err != nil {
				t.Fatal(err)
			}
			got, found, err := path.Value(in)
			if err != nil || found != c.found {
				t.Fatalf("%s: found is %t, error is %v", c.reason, found, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ reason, path, want string }{
		"empty":     {reason: "a path leads somewhere", path: "", want: "is empty"},
		"blank":     {reason: "blanks are no path", path: "  ", want: "is empty"},
		"unclosed":  {reason: "braces must be closed", path: "{.a", want: "unclosed"},
		"filter":    {reason: "so must be filters", path: ".list[?(", want: "unterminated"},
		"word":      {reason: "a word without a dot would never be found", path: "{foo}", want: `unknown word "foo"`},
		"late word": {reason: "wherever it is", path: "{.list[?(@.a==b)]}", want: `unknown word "b"`},
		"end":       {reason: "an end needs a range", path: "{.a}{end}", want: "nothing to end"},
		"long":      {reason: "its length is bounded", path: strings.Repeat(".a", 1025), want: "longer than 2048"},
	} {
		if _, err := jsonpath.Parse(c.path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s: expected an error with %q, but found %v", name, c.reason, c.want, err)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, path string
		want         []any
	}{
		"list":    {reason: "also if the path leads to it", path: ".holes[1].in", want: []any{[]any{"a", "b"}}},
		"all":     {reason: "all values count", path: ".list[*].n", want: []any{int64(1), int64(2)}},
		"text":    {reason: "a text is one value", path: "{.z.a}-{.z.b}", want: []any{"1-2"}},
		"nothing": {reason: "no value is none", path: ".status"},
	} {
		path, err := jsonpath.Parse(c.path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := path.Find(example())
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %s: error %v, -want +got:\n%s", name, c.reason, err, diff)
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
	for name, c := range map[string]struct{ reason, path string }{
		"recursion of recursion": {reason: "each descent multiplies", path: "{..a..a..a..a}"},
		"union of unions":        {reason: "each union doubles", path: ".deep" + strings.Repeat("['a','a']", 100)},
		"range of ranges": {
			reason: "each range multiplies", path: "{range .deep}" + strings.Repeat("{range ['a','a']}", 100),
		},
		"many results": {reason: "results are bounded", path: ".wide[*]"},
		"filters": {
			reason: "filters do work, too", path: ".wide[?(@['n','n','n','n','n','n','n','n','n','n'].x==1)]",
		},
		"a large value":      {reason: "a value must fit into an object", path: ".big"},
		"overlapping values": {reason: "values that hold one another count as often as they come", path: ".deep..a"},
		"a large text":       {reason: "a text must fit, too", path: "{.big} {.big}"},
		"a growing text": {
			reason: "wherever it comes from", path: "{range .wide[*]}" + strings.Repeat("x", 500) + "{end}",
		},
	} {
		path, err := jsonpath.Parse(c.path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, _, err := path.Value(in); !errors.Is(err, jsonpath.ErrTooMuch) {
			t.Errorf("%s: %s: expected that it is too much, but found %v", name, c.reason, err)
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

func Example() {
	path, err := jsonpath.Parse(".status.conditions[?(@.type=='Ready')].status")
	if err != nil {
		fmt.Println(err)
		return
	}
	values, err := path.Find(fields{"status": fields{"conditions": []any{fields{"type": "Ready", "status": "True"}}}})
	fmt.Println(values, err)
	// Output: [True] <nil>
}
