package controller

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// endNamespace begins to delete the namespace of a bench: nothing can be created there any more, and the locks go
// first.
func (b *bench) endNamespace(peers ...*peer) {
	b.t.Helper()
	if err := b.admin.Delete(b.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.item.Namespace}}); err != nil {
		b.t.Fatal(err)
	}
	object := &v1alpha1.SyncObject{}
	key := client.ObjectKey{Namespace: b.item.Namespace, Name: "one-" + string(b.read().UID)}
	if err := b.admin.Get(b.t.Context(), key, object); err != nil {
		b.t.Fatal(err)
	}
	if err := b.admin.Delete(b.t.Context(), object); err != nil {
		b.t.Fatal(err)
	}
	for _, p := range peers {
		p.locker.Deleted(object)
	}
}

// TestTerminatingNamespace: when the lock of a job in its call is deleted with its namespace, and cannot be created
// again, the replica that had it goes on without; only if that one is dead another one does, which comes first for
// the item.
func TestTerminatingNamespace(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		dead         bool
		ends         string
	}{
		{"whose holder is alive", "another replica would be in a call at the same time", false, "here"},
		{"whose holder is dead", "nobody else would do it", true, "there"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBenchOn(t, newServerAPI(t), nil)
			here, there := newPeer(b, "here"), newPeer(b, "there")
			here.others.rank = 1
			done := answers(func() (*plugin.Outcome, error) { return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil })
			b.answer = func(ctx context.Context, _ plugin.Operation, _ plugin.Observer) (*plugin.Outcome, error) {
				b.answer = done
				there.hear()
				there.look(t.Context()) // finds that the item is locked
				b.endNamespace(here, there)
				there.others.dead["here"] = tc.dead
				there.look(t.Context())
				if called := len(b.calls) > 1; called != tc.dead {
					t.Errorf("%s: the other replica was called in the middle of a call: %t", tc.reason, called)
				}
				<-ctx.Done() // the plugin needs until now to end
				return nil, ctx.Err()
			}
			jobID := b.setJob()
			for range 3 {
				for _, p := range []*peer{here, there} {
					p.look(t.Context())
				}
				b.clock.Step(time.Second)
			}
			item := b.read()
			succeeded := item.Status.JobIDFinished == jobID && item.Status.Phase == v1alpha1.DeployItemPhaseSucceeded
			if !succeeded || item.Status.Deployer.Identity != tc.ends {
				t.Errorf("%s: expected the job to succeed on %s, but found %s of %q", tc.reason, tc.ends, describe(item), item.Status.Deployer.Identity)
			}
			if want := slices.Repeat([]string{"Reconcile " + jobID}, 2); !slices.Equal(b.calls, want) {
				t.Errorf("%s: expected the calls %v, but found %v", tc.reason, want, b.calls)
			}
		})
	}
}
