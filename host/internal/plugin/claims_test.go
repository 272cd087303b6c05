package plugin

import (
	"fmt"
	"slices"
	"testing"

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
		serving := map[*claimant]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			p := rapid.SampledFrom(all).Draw(t, "plugin")
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				if !c.settled {
					refused := c.settle()
					for _, q := range all {
						if refused[q.file] != nil && c.has(q.file, q.info.Name) {
							t.Fatalf("%s is refused and serves", q.file)
						}
					}
				}
			default:
				if err := c.make(p.file, claimsOf(p.info)); err == nil && c.settled && !c.has(p.file, p.info.Name) {
					t.Fatalf("the claim of %s is accepted and forgotten", p.file)
				}
			}
			checkClaims(t, &c, all)
			for q := range serving {
				if !c.has(q.file, q.info.Name) {
					t.Fatalf("%s serves no more because of %s", q.file, p.file)
				}
			}
			clear(serving)
			for _, q := range all {
				if c.has(q.file, q.info.Name) {
					serving[q] = true
				}
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

func checkClaims(t *rapid.T, c *claims, all []*claimant) {
	for i, p := range all {
		if c.has(p.file, p.info.Name) && !c.settled {
			t.Fatalf("%s serves before the claims are settled", p.file)
		}
		for _, q := range all[:i] {
			if !c.has(p.file, p.info.Name) || !c.has(q.file, q.info.Name) {
				continue
			}
			for _, claim := range claimsOf(p.info) {
				if slices.Contains(claimsOf(q.info), claim) {
					t.Fatalf("%s and %s both serve %s", p.file, q.file, claim)
				}
			}
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
