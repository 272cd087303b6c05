package target

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNamedThatIsMissing(t *testing.T) {
	t.Parallel()
	there := newStore(inlineTarget("1", marshal(t, map[string]any{"kubeconfig": sound})))
	resolver := NewResolver(newCache().reader(), there.reader(), Options{})
	if _, err := resolver.Named(t.Context(), "foo", "my-target"); err != nil {
		t.Errorf("a Target that is there: %v", err)
	}
	long := strings.Repeat("x", 254)
	for name, want := range map[string]string{
		"nowhere": `Target "foo/nowhere": there is no such Target; create it, or correct what names it in the deploy item`,
		"":        `Target "foo/": no Target can have this name; correct what names it in the deploy item`,
		"a/b":     `Target "foo/a/b": no Target can have this name; correct what names it in the deploy item`,
		"..":      `Target "foo/..": no Target can have this name; correct what names it in the deploy item`,
		"a\nb":    `Target "foo/a\nb": no Target can have this name; correct what names it in the deploy item`,
		long:      `Target "foo/` + long + `": no Target can have this name; correct what names it in the deploy item`,
	} {
		live := newStore()
		resolved, err := NewResolver(newCache().reader(), live.reader(), Options{}).Named(t.Context(), "foo", name)
		var problem *Error
		if resolved != nil || !errors.As(err, &problem) || problem.Reason != ReasonTargetNotFound || problem.Code() != "" {
			t.Errorf("%q: want an *Error with reason %s and no code, got %v, %v", name, ReasonTargetNotFound, resolved, err)
			continue
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("%q: (-want +got):\n%s", name, diff)
		}
		if asked := live.requests.Load(); name != "nowhere" && asked > 0 {
			t.Errorf("%q: want no request for what cannot be a name, got %d", name, asked)
		}
	}
}
