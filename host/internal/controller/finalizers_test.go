package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// keeperFunc is a Keeper.
type keeperFunc func(used ...client.Object) error

func (f keeperFunc) Keep(_ context.Context, used ...client.Object) error { return f(used...) }

// TestReferencesAreKept: Context and Target of an item are kept before its plugin is called to deploy. A failure keeps
// the plugin from it, but a lack of rights to write finalizers does not.
func TestReferencesAreKept(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "targets"}, "here", errors.New("no role"))
	for name, tc := range map[string]struct {
		err   error
		calls int
		event bool
	}{
		"kept":      {nil, 1, false},
		"failed":    {errors.New("the API server is away"), 0, false},
		"forbidden": {forbidden, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, succeeds, withTargetNamed("here"))
			b.newTarget(b.item.Namespace, "here")
			var kept []string
			keep := keeperFunc(func(used ...client.Object) error {
				for _, object := range used {
					kept = append(kept, object.GetName())
				}
				if len(b.calls) > 0 || len(b.read().Finalizers) != 1 {
					t.Errorf("expected to be asked before the call, and after the item has its finalizer: %v", b.calls)
				}
				return tc.err
			})
			b.set(func(p *parts) { p.options.Keeper = keep })
			b.setJob()
			b.reconcile(t.Context())
			if len(b.calls) != tc.calls || strings.Join(kept, " ") != "default here" {
				t.Errorf("expected %d calls after default and here were kept, but found %v, %v", tc.calls, b.calls, kept)
			}
			if recorded := fmt.Sprint(b.recorded()); strings.Contains(recorded, "ReferenceNotKept") != tc.event {
				t.Errorf("expected an event: %t, but found %s", tc.event, recorded)
			}
		})
	}
}
