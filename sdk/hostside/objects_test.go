package hostside

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
)

func TestReadChanges(t *testing.T) {
	t.Parallel()
	change := func(object, action, before, after string) *deployerv1.Change {
		return &deployerv1.Change{Object: object, Action: action, Before: []byte(before), After: []byte(after)}
	}
	for _, tc := range []struct {
		reason string
		in     *deployerv1.Change
		want   string // part of the error; empty if nothing is wrong
	}{
		{"create", change("a", "create", "", "{}"), ""},
		{"update", change("a", "update", "{}", "\n {}"), ""},
		{"recreate", change("a", "recreate", "{}", "{}"), ""},
		{"delete", change("a", "delete", "{}", ""), ""},
		{"keep", change("a", "keep", "", ""), ""},
		{"fail", change("a", "fail", "", ""), ""},
		{"the longest name", change(strings.Repeat("n", maxObjectName), "create", "", ""), ""},
		{"a longer one", change(strings.Repeat("n", maxObjectName+1), "create", "", ""), "longer than 1024 bytes"},
		{"no name", change("", "create", "", ""), `the object "" of its change 0 is empty`},
		{"no action", change("a", "", "", ""), `its change of "a" has the action ""`},
		{"an unknown action", change("a", "Create", "", ""),
			`has the action "Create"; expected one of ["create" "update"`},
		{"null is none", change("a", "update", "null", "{}"), "the state before it: expected a JSON object"},
		{"a list", change("a", "update", "{}", "[{}]"), "the state after it: expected a JSON object"},
		{"more than one, and a secret in it", change("a", "update", "{}", `{"password":"t0ps3cret"}{}`),
			"the state after it: expected a JSON object"},
		{"no UTF-8", change("a", "update", "{\"a\":\"\xff\"}", "{}"), "the state before it: expected a JSON object"},
	} {
		out, err := ReadChanges([]*deployerv1.Change{tc.in})
		mentions(t, tc.reason, err, tc.want)
		if err == nil && len(out) != 1 || err != nil && strings.Contains(err.Error(), "t0ps3cret") {
			t.Errorf("%s: one has become %d, or a secret is in: %v", tc.reason, len(out), err)
		}
	}
}

// mentions expects an error with a text, and none without.
func mentions(t *testing.T, name string, err error, text string) {
	t.Helper()
	if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%s: expected %q, but found: %v", name, text, err)
	}
}

func TestReadChildren(t *testing.T) {
	t.Parallel()
	const object = `{"apiVersion":"v1","kind":"ConfigMap"}`
	child := func(name, object string) *deployerv1.Child {
		return &deployerv1.Child{Name: name, Object: []byte(object)}
	}
	for _, test := range []struct {
		reason string
		in     []*deployerv1.Child
		want   string // part of the error; empty if nothing is wrong
	}{
		{"none", nil, ""},
		{"two equal objects", []*deployerv1.Child{child("a", object), child("b", object)}, ""},
		{"the longest name", []*deployerv1.Child{child(strings.Repeat("n", maxObjectName), object)}, ""},
		{"a longer one", []*deployerv1.Child{child(strings.Repeat("n", maxObjectName+1), object)}, "longer than 1024 bytes"},
		{"no name", []*deployerv1.Child{child("a", object), child("", object)},
			`"" of its desired object 1 is empty`},
		{"a name twice", []*deployerv1.Child{child("a", object), child("a", object)},
			`two of its desired objects have the name "a"`},
		{"no object at all", []*deployerv1.Child{child("a", "")}, "is no JSON object"},
		{"null is none", []*deployerv1.Child{child("a", "null")}, "no apiVersion or no kind"},
		{"a list", []*deployerv1.Child{child("a", "["+object+"]")}, "is no JSON object"},
		{"more than one", []*deployerv1.Child{child("a", object+object)}, "is no JSON object"},
		{"no kind", []*deployerv1.Child{child("a", `{"apiVersion":"v1"}`)}, "no apiVersion or no kind"},
		{"no version", []*deployerv1.Child{child("a", `{"kind":"ConfigMap"}`)}, "no apiVersion or no kind"},
		{"a number as kind", []*deployerv1.Child{child("a", `{"apiVersion":"v1","kind":1}`)}, "is no JSON object"},
	} {
		out, err := ReadChildren(test.in)
		mentions(t, test.reason, err, test.want)
		if err == nil && len(out) != len(test.in) {
			t.Errorf("%s: %d have become %d", test.reason, len(test.in), len(out))
		}
	}
}

// A holding that cannot belong to a deploy item is left out.
func TestReadHoldings(t *testing.T) {
	t.Parallel()
	good := &deployerv1.Holding{Namespace: "shop", Name: "item", Uid: "1", JobId: "job"}
	got, strange := ReadHoldings([]*deployerv1.Holding{
		{Namespace: "Shop", Name: "item", Uid: "1"}, {Namespace: "shop", Name: "a/b", Uid: "1"},
		{Namespace: "shop", Name: "item"}, {Namespace: "shop", Name: "item", Uid: strings.Repeat("1", MaxText+1)}, good,
	})
	want := []sdk.Holding{{Namespace: "shop", Name: "item", UID: "1", JobID: "job"}}
	if diff := cmp.Diff(want, got); diff != "" || strange != 4 {
		t.Errorf("%d others, holdings (-want +got):\n%s", strange, diff)
	}
	again := CollectRequest(nil, got).GetHoldings()
	if diff := cmp.Diff([]*deployerv1.Holding{good}, again, protocmp.Transform()); diff != "" {
		t.Errorf("back on the wire (-want +got):\n%s", diff)
	}
}
