package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// keeperFunc is a Keeper.
type keeperFunc func(used ...client.Object) error

func (f keeperFunc) Keep(_ context.Context, used ...client.Object) error { return f(used...) }

// TestReferencesAreKept: what an item uses is kept before its plugin is called to deploy; a failure keeps the plugin from
// it, but that the host may not write finalizers does not.
func TestReferencesAreKept(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "targets"}, "here", errors.New("no role"))
	for name, tc := range map[string]struct {
		err   error
		calls int
		event string
	}{
		"kept":      {nil, 1, ""},
		"failed":    {errors.New("the API server is away"), 0, ""},
		"forbidden": {forbidden, 1, "ReferenceNotKept"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, succeeds, withTargetNamed("here"))
			b.create(&v1alpha1.Target{
				ObjectMeta: metav1.ObjectMeta{Name: "here", Namespace: b.item.Namespace},
				Spec:       v1alpha1.TargetSpec{Type: "other"},
			})
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
			recorded := ""
			for len(b.events.Events) > 0 {
				recorded += <-b.events.Events + "\n"
			}
			if strings.Contains(recorded, "ReferenceNotKept") != (tc.event != "") {
				t.Errorf("expected the event %q, but found\n%s", tc.event, recorded)
			}
		})
	}
}
