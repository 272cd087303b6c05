package target

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestBeingDeleted: where a finalizer keeps what older items use, a newer item finds it missing, and an older one, or
// any where nothing is kept, does not.
func TestBeingDeleted(t *testing.T) {
	t.Parallel()
	noon := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	deleted := metav1.ObjectMeta{
		Namespace: "foo", Name: "my-target", DeletionTimestamp: &noon, Finalizers: []string{"test.pergola.dev/kept"},
	}
	target := inlineTarget("1", marshal(t, map[string]any{"kubeconfig": sound}))
	target.ObjectMeta = deleted
	store := newStore(t, target, &v1alpha1.Context{ObjectMeta: deleted})
	for name, tc := range map[string]struct {
		age     time.Duration // at the deletion
		keeps   bool
		missing bool
	}{
		"older":                        {age: time.Second, keeps: true},
		"of the same second":           {keeps: true},
		"newer":                        {age: -time.Second, keeps: true, missing: true},
		"newer, where nothing is kept": {age: -time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resolver := NewResolver(store, store, Options{Keeps: tc.keeps})
			item := newItem("my-target")
			item.Spec.Context, item.CreationTimestamp = "my-target", metav1.NewTime(noon.Add(-tc.age))
			_, targetErr := resolver.Target(t.Context(), item)
			_, contextErr := resolver.Context(t.Context(), item)
			for reason, err := range map[Reason]error{ReasonTargetNotFound: targetErr, ReasonContextNotFound: contextErr} {
				found := (*Error)(nil)
				if errors.As(err, &found) && (found.Reason != reason || !strings.Contains(found.Error(), beingDeleted)) ||
					(err != nil) != tc.missing {
					t.Errorf("%s: found %v", reason, err)
				}
			}
		})
	}
}
