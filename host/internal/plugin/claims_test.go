package plugin

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Whatever plugins claim, and in which order: no plugin serves before the claims are settled, no two serve the same,
// and a later one drives none out.
func TestClaimsProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := make([]*claimant, 5)
		for i := range all {
			all[i] = &claimant{file: fmt.Sprintf("file%d", i), info: drawInfo(t)}
		}
		c := claims{by: map[string][]string{}}
		idle := func(p *claimant) bool { return !c.has(p.file, p.info.Name) }
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			before := slices.DeleteFunc(slices.Clone(all), idle)
			p := rapid.SampledFrom(all).Draw(t, "plugin")
			if !c.settled && rapid.IntRange(0, 4).Draw(t, "event") == 0 {
				refused := c.settle()
				for _, q := range all {
					if refused[q.file] != nil && !idle(q) {
						t.Fatalf("%s is refused and serves", q.file)
					}
				}
			} else if err := c.make(p.file, claimsOf(p.info)); err == nil && c.settled && idle(p) {
				t.Fatalf("the claim of %s is accepted and forgotten", p.file)
			}
			checkClaims(t, &c, slices.DeleteFunc(slices.Clone(all), idle))
			if slices.ContainsFunc(before, idle) {
				t.Fatalf("a plugin serves no more because of %s", p.file)
			}
		}
	})
}

type claimant struct {
	file string
	info *Info
}

func drawInfo(t *rapid.T) *Info {
	return &Info{
		Name: rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}).Draw(t, "name"),
		Types: rapid.SliceOfNDistinct(
			rapid.SampledFrom([]v1alpha1.DeployItemType{"1", "2", "3", "4", "5", "6", "7", "8"}), 0, 3,
			// none: nothing but hooks
			func(t v1alpha1.DeployItemType) v1alpha1.DeployItemType { return t },
		).Draw(t, "types"),
	}
}

func checkClaims(t *rapid.T, c *claims, serving []*claimant) {
	if len(serving) > 0 && !c.settled {
		t.Fatalf("%s serves before the claims are settled", serving[0].file)
	}
	by := map[string]string{}
	for _, p := range serving {
		for _, claim := range claimsOf(p.info) {
			if by[claim] != "" {
				t.Fatalf("%s and %s both serve %s", by[claim], p.file, claim)
			}
			by[claim] = p.file
		}
	}
}

// TestUnserved: a plugin that has not said yet what it serves may serve the type.
func TestUnserved(t *testing.T) {
	t.Parallel()
	two := &Plugin{file: "two"}
	one := &Plugin{file: "one", facts: facts{
		lifecycle: lifecycle{settled: true}, info: &Info{Name: "one", Types: []v1alpha1.DeployItemType{"b", "a"}},
	}}
	s := &Set{
		plugins: []*Plugin{one, two}, claims: claims{settled: true, by: map[string][]string{nameClaim("one"): {"one"}}},
	}
	for _, want := range []string{"", `no plugin here serves type "c"; served are "a", "b"`} {
		if got := s.Unserved("c"); got != want || s.Unserved("a") != "" {
			t.Errorf("expected %q, but found %q; of a type that is served %q", want, got, s.Unserved("a"))
		}
		two.lifecycle.settled = true
	}
}

// namesOf are the names of plugins, in their order.
func namesOf(plugins []*Plugin) []string {
	var names []string
	for _, p := range plugins {
		names = append(names, p.Name())
	}
	return names
}

// The hooks of one plugin run for the items of another one, in the order of names. A plugin whose check is to be passed
// is not passed over while it is away.
func TestHooking(t *testing.T) {
	t.Parallel()
	s := &Set{claims: claims{by: map[string][]string{}}}
	for i, info := range []*Info{
		{Name: "echo", Types: []v1alpha1.DeployItemType{"one"}},
		{Name: "b", HookedTypes: []v1alpha1.DeployItemType{"one", "other"}}, // nothing but hooks
		{Name: "a", Types: []v1alpha1.DeployItemType{"two"}, HookedTypes: []v1alpha1.DeployItemType{"one"}},
	} {
		p := &Plugin{file: fmt.Sprint("file", i), facts: facts{info: info}} // none of which is running
		s.plugins = append(s.plugins, p)
		if err := s.claim(p, info); err != nil {
			t.Fatal(err)
		}
	}
	if got := namesOf(s.Hooking("one")); len(got) > 0 {
		t.Errorf("expected none before the claims are settled, but found %q", got)
	}
	s.claims.settle()
	if diff := cmp.Diff([]string{"echo", "a"}, namesOf(s.Serving())); diff != "" {
		t.Errorf("serving (-want +got):\n%s", diff)
	}
	for itemType, want := range map[v1alpha1.DeployItemType][]string{
		"one": {"a", "b"}, "other": {"b"}, "two": nil, "none": nil,
	} {
		if diff := cmp.Diff(want, namesOf(s.Hooking(itemType))); diff != "" {
			t.Errorf("hooking %s (-want +got):\n%s", itemType, diff)
		}
	}
}
