package target

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// A Target that is named is the same as the item's own, and what is wrong with it, too.
func TestNamedIsLikeOwn(t *testing.T) {
	t.Parallel()
	inline := func(kubeconfig string) *store {
		return newStore(inlineTarget("1", marshal(t, map[string]any{"kubeconfig": kubeconfig})))
	}
	for _, tc := range []struct {
		reason string
		live   *store
		want   Reason // empty if nothing is wrong
		code   v1alpha1.ErrorCode
	}{
		{reason: "inline content", live: inline(sound)},
		{reason: "content of a secret", live: newStore(secretTarget("1", ""), newSecret("1", map[string]string{"kubeconfig": sound}))},
		{
			reason: "what is forbidden is so by another name, too", live: inline(kubeconfig("exec: {command: t0ps3cret}")),
			want: ReasonForbidden, code: v1alpha1.ErrorConfigurationProblem,
		},
		{reason: "a secret may still come", live: newStore(secretTarget("1", "")), want: ReasonSecretNotFound},
		{
			reason: "a ServiceAccount without tokens", live: newStore(inlineTarget("1", `{"selfConfig":{"serviceAccount":{"name":"a"}}}`)),
			want: ReasonContentInvalid, code: v1alpha1.ErrorConfigurationProblem,
		},
	} {
		resolver := NewResolver(newCache().reader(), tc.live.reader())
		own, ownErr := resolver.Target(t.Context(), newItem("my-target"))
		named, err := resolver.Named(t.Context(), "foo", "my-target")
		if diff := cmp.Diff(own, named); diff != "" {
			t.Errorf("%s: (-own +named):\n%s", tc.reason, diff)
		}
		if tc.want == "" {
			if err != nil || named == nil {
				t.Errorf("%s: %v", tc.reason, err)
			}
			continue
		}
		var problem *Error
		if !errors.As(err, &problem) || problem.Reason != tc.want || problem.Code() != tc.code {
			t.Errorf("%s: want an *Error with reason %s and code %q, got %v", tc.reason, tc.want, tc.code, err)
			continue
		}
		if diff := cmp.Diff(ownErr.Error(), err.Error()); diff != "" || strings.Contains(err.Error(), "t0ps3cret") {
			t.Errorf("%s: (-own +named):\n%s", tc.reason, diff)
		}
	}
}

func TestNamedThatIsMissing(t *testing.T) {
	t.Parallel()
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
		resolved, err := NewResolver(newCache().reader(), live.reader()).Named(t.Context(), "foo", name)
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

// An API server that does not answer says nothing about the Target.
func TestNamedWithoutAPIServer(t *testing.T) {
	t.Parallel()
	broken := newStore()
	broken.err = errors.New("connection refused")
	_, err := NewResolver(broken.reader(), broken.reader()).Named(t.Context(), "foo", "my-target")
	var problem *Error
	if !errors.Is(err, broken.err) || errors.As(err, &problem) {
		t.Errorf("want the error of the reader, got %v", err)
	}
}
