package items

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// completions are what a shell completes arguments with.
func completions(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := pergola.Run(t, append([]string{"__completeNoDesc"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	words, _, _ := strings.Cut(out, ":") // the directive, which follows
	return strings.Fields(words)
}

func TestCompletion(t *testing.T) {
	s := newShop(t)
	s.item("good", setJob("job-1"), beginJob, succeed)
	s.item("new")
	other := newShop(t)
	for _, tc := range []struct {
		reason string
		args   []string
		want   []string
	}{
		{reason: "items", args: []string{"items", "show", ""}, want: []string{"good", "new"}},
		{reason: "another one", args: []string{"items", "wait", "good", ""}, want: []string{"new"}},
		{reason: "there is no other one", args: []string{"items", "tree", "good", ""}},
		{reason: "items of another namespace", args: []string{"items", "show", "-n", other.namespace, ""}},
		{reason: "types", args: []string{"items", "list", "--type", ""}, want: []string{"helm"}},
		{reason: "phases", args: []string{"items", "list", "--phase", "S"}, want: []string{"Succeeded"}},
		{
			reason: "formats", args: []string{"items", "list", "-o", ""},
			want: []string{"text", "json", "wide", "yaml", "name"},
		},
		{reason: "goals", args: []string{"items", "wait", "--for", "d"}, want: []string{"deleted"}},
		{reason: "colours", args: []string{"items", "tree", "--color", ""}, want: []string{"auto", "always", "never"}},
		{reason: "commands", args: []string{"items", "tr"}, want: []string{"tree", "trigger"}},
		{reason: "no cluster", args: []string{"items", "show", "--context", "none", ""}},
	} {
		args := tc.args
		if len(args) > 2 { // the flags of a command come after its name
			args = slices.Concat(args[:2], []string{"--kubeconfig", s.kubeconfig}, args[2:])
		}
		got := completions(t, args...)
		var expected []string
		for _, word := range got {
			if strings.HasPrefix(word, args[len(args)-1]) {
				expected = append(expected, word)
			}
		}
		if diff := cmp.Diff(tc.want, expected); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
	namespaces := completions(t, "items", "list", "--kubeconfig", s.kubeconfig, "-n", "")
	if !slices.Contains(namespaces, other.namespace) {
		t.Errorf("expected the namespaces, but found %v", namespaces)
	}
}
