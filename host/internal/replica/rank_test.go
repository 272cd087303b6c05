package replica

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

// viewsOf returns the members as each replica sees them.
func viewsOf(all []member) []*members {
	var views []*members
	for i, self := range all {
		others := append(append([]member{}, all[:i]...), all[i+1:]...)
		views = append(views, newMembers(self, others))
	}
	return views
}

// plugin is what is served in the tests.
const plugin = "helm"

// preferred returns which replica that serves the plugin a key prefers; "" if none does.
func preferred(views []*members, key string) string {
	for _, v := range views {
		if v.serves(plugin) && v.rank(plugin, key) == 0 {
			return v.self.podName
		}
	}
	return ""
}

func drawMembers(t *rapid.T) []member {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`host-[a-z0-9]{1,5}`), 2, 8, rapid.ID[string]).Draw(t, "names")
	var all []member
	for _, name := range names {
		all = append(all, member{
			podName: name, leaving: rapid.Bool().Draw(t, name+" leaves"),
			plugins: rapid.SampledFrom([]string{plugin, "container,helm", "container", ""}).Draw(t, name+" serves"),
		})
	}
	return all
}

func TestRankProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, key := drawMembers(t), rapid.String().Draw(t, "key")
		views := viewsOf(all)
		checkPlaces(t, views, key)
		// A replica that goes moves only the keys that prefer it.
		rest := viewsOf(all[1:])
		if was, is := preferred(views, key), preferred(rest, key); was != all[0].podName && was != is {
			t.Fatalf("key %q moved from %s to %s when %s went", key, was, is, all[0].podName)
		}
		// One that comes moves keys only to itself; the same seen from the other side.
		if was, is := preferred(rest, key), preferred(views, key); is != was && is != all[0].podName {
			t.Fatalf("key %q moved from %s to %s when %s came", key, was, is, all[0].podName)
		}
	})
}

// checkPlaces checks that those that serve the plugin have a place each, the others come after them, and those that leave come last.
func checkPlaces(t *rapid.T, views []*members, key string) {
	places, servers := map[int]member{}, 0
	for _, v := range views {
		if v.serves(plugin) {
			places[v.rank(plugin, key)] = v.self
			servers++
		}
	}
	if len(places) != servers {
		t.Fatalf("%d replicas have %d places", servers, len(places))
	}
	for place := 1; place < servers; place++ {
		if places[place-1].leaving && !places[place].leaving {
			t.Fatalf("a replica that leaves comes before one that stays: %v", places)
		}
	}
	for _, v := range views {
		if !v.serves(plugin) && v.rank(plugin, key) != servers {
			t.Fatalf("%v comes before one of the %d that serve the plugin", v.self, servers)
		}
	}
}

func TestKeysAreSpreadEvenly(t *testing.T) {
	for name, podNames := range map[string][]string{
		"Deployment":  {"pergola-6d4cf56db6-2xkqp", "pergola-6d4cf56db6-9wz4l", "pergola-6d4cf56db6-ht7bn"},
		"StatefulSet": {"pergola-0", "pergola-1", "pergola-2"},
	} {
		t.Run(name, func(t *testing.T) {
			var all []member
			for _, podName := range podNames {
				all = append(all, member{podName: podName, plugins: plugin})
			}
			views, counts := viewsOf(all), map[string]int{}
			for i := range 3000 {
				counts[preferred(views, fmt.Sprintf("namespace/item-%04d", i))]++
			}
			for _, podName := range podNames {
				if n := counts[podName]; n < 750 || n > 1260 {
					t.Errorf("%s is preferred by %d of 3000 keys", podName, n)
				}
			}
		})
	}
}

// TestScore keeps the hash from changing: replicas of different versions must agree.
func TestScore(t *testing.T) {
	if got, want := score("pergola-0", "namespace/item"), uint64(0x5e0eafd28d89179a); got != want {
		t.Errorf("expected %#x, but found %#x", want, got)
	}
}

func TestLeaseName(t *testing.T) {
	for name, tc := range map[string]struct{ reason, podName, want string }{
		"short":  {"it can be told from the pod's", "host-0", "pergola-host-0"},
		"longer": {"it just fits", strings.Repeat("a", 245), "pergola-" + strings.Repeat("a", 245)},
		"too long": {"it is cut, and told from others by a hash", strings.Repeat("a", 253),
			"pergola-" + strings.Repeat("a", 228) + "-?"},
		"cut at a dot": {"a part of a name does not begin with a dash", strings.Repeat("a", 227) + "." + strings.Repeat("b", 25),
			"pergola-" + strings.Repeat("a", 227) + "-?"},
	} {
		t.Run(name, func(t *testing.T) {
			got := LeaseName(tc.podName)
			prefix, cut := strings.CutSuffix(tc.want, "?")
			if len(got) > maxNameLength || cut != (got != tc.want) || !strings.HasPrefix(got, prefix) {
				t.Errorf("%s: expected %s, but found %s", tc.reason, tc.want, got)
			}
		})
	}
	if a := strings.Repeat("a", 252); LeaseName(a+"b") == LeaseName(a+"c") {
		t.Error("pods with long names share a Lease")
	}
}

func TestGroupLabel(t *testing.T) {
	seen := map[string]string{}
	for _, group := range []string{"", "pergola-", "pergola", "-", "a/b=c,!d", strings.Repeat("x", 1000), "ä"} {
		label := GroupLabel(group)
		if wrong := validation.IsValidLabelValue(label); len(wrong) > 0 || label == "" {
			t.Errorf("group %q becomes %q: %q", group, label, wrong)
		}
		if before, twice := seen[label]; twice {
			t.Errorf("groups %q and %q are one", before, group)
		}
		seen[label] = group
	}
}
