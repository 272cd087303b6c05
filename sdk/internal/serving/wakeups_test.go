package serving

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// However items are added and taken, what was added since the last time is there, each item once, and is announced.
func TestWakeUpsAreCollapsedButNotLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWakeUps()
		pending := map[types.NamespacedName]struct{}{}
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				item := types.NamespacedName{
					Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "namespace"),
					Name:      rapid.SampledFrom([]string{"x", "y", "z"}).Draw(rt, "name"),
				}
				w.add(item.Namespace, item.Name)
				pending[item] = struct{}{}
			},
			"take": func(rt *rapid.T) {
				select {
				case <-w.ready:
				default:
					if len(pending) > 0 {
						rt.Fatalf("%d items wait, but are not announced", len(pending))
					}
					rt.Skip("nothing to take")
				}
				if diff := cmp.Diff(pending, w.take()); diff != "" {
					rt.Fatalf("taken (-want +got):\n%s", diff)
				}
				pending = map[types.NamespacedName]struct{}{}
			},
		})
	})
}

func TestForwardEndsWhenTheHostIsGone(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	w := newWakeUps()
	w.add("default", "item")
	err := w.forward(t.Context(), func(*deployerv1.WatchResponse) error { return gone })
	if !errors.Is(err, gone) {
		t.Errorf("expected %v, but found %v", gone, err)
	}
}
