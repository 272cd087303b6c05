package lock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/hostlease"
)

func (w *world) readLease(podName string) *coordinationv1.Lease {
	w.t.Helper()
	lease := &coordinationv1.Lease{}
	w.must(w.server.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: podName}, lease))
	return lease
}

func TestLeaseIsKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, a *member) {
		stop := a.run()
		first := w.readLease("a")
		owners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "a"}}
		diff := cmp.Diff(map[string]string{labelReplica: "true", hostlease.Label: groupLabel("")}, first.Labels) +
			cmp.Diff(owners, first.OwnerReferences)
		if diff != "" || *first.Spec.HolderIdentity != a.Process() || !strings.HasPrefix(a.Process(), "a/") ||
			*first.Spec.LeaseDurationSeconds != 15 {
			t.Errorf("the process is %s, the Lease says %+v\n%s", a.Process(), first.Spec, diff)
		}
		passTime(leaseDuration / 3)
		if next := w.readLease("a"); next.Spec.RenewTime.Sub(first.Spec.RenewTime.Time) != leaseDuration/3 {
			t.Errorf("renewed at %s and at %s", first.Spec.RenewTime, next.Spec.RenewTime)
		}
		a.Serve([]string{"manifest", "helm", "helm"})
		a.Leave()
		synctest.Wait()
		want := map[string]string{annotationPlugins: "helm,manifest", annotationLeaving: "true"}
		if diff := cmp.Diff(want, w.readLease("a").Annotations); diff != "" {
			t.Errorf("the others are not told at once:\n%s", diff)
		}
		before := a.told.Load()
		w.must(stop())
		if a.Valid() || a.told.Load() == before || *w.readLease("a").Spec.HolderIdentity != "" {
			t.Errorf("valid %t after the end, told %d times, the Lease says %+v", a.Valid(), a.told.Load()-before,
				w.readLease("a").Spec)
		}
	})
}

// TestLeaseLapses: who cannot renew its Lease is invalid before anybody may take it for dead, and says so.
// Rule (architecture.md#why-they-are-safe): A replica without a renewed Lease loses its locks before others may take
// them.
func TestLeaseLapses(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, a *member) {
		stop := a.run()
		for range 2 {
			var invalid, heard time.Duration
			cut := w.readLease("a").Spec.RenewTime.Time
			a.cut.Store(true)
			a.Subscribe(func() {
				if heard == 0 && !a.Valid() {
					heard = time.Since(cut)
				}
			})
			for time.Since(cut) < 2*leaseDuration {
				passTime(100 * time.Millisecond)
				if invalid == 0 && !a.Valid() {
					invalid = time.Since(cut)
				}
			}
			if limit := leaseDuration * 2 / 3; invalid > limit+200*time.Millisecond || heard > limit+200*time.Millisecond ||
				heard == 0 {
				t.Errorf("invalid after %s, and heard of after %s", invalid, heard)
			}
			a.cut.Store(false)
			passTime(leaseDuration / 2)
			if !a.Valid() {
				t.Error("renewed, but not valid")
			}
		}
		w.must(stop())
	})
}

// TestAlone: a replica is alone as long as there is no other one of its group, dead or alive, and until it ends.
func TestAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, a *member) {
		stop := a.run()
		expect := func(want bool, reason string) {
			t.Helper()
			a.see()
			if a.Alone() != want {
				t.Errorf("%s: alone %t", reason, !want)
			}
		}
		expect(true, "there is no other pod")
		a.cut.Store(true)
		passTime(leaseDuration)
		expect(true, "it has lapsed, but nobody could take anything over")
		a.cut.Store(false)
		w.pod("b")
		b := w.replica("b")
		endB := b.run()
		expect(false, "there is another one")
		b.cut.Store(true)
		passTime(2 * leaseDuration)
		expect(false, "the other one seems dead, but may come back")
		b.cut.Store(false)
		w.must(endB())
		w.deletePod("b")
		passTime(leaseDuration)
		expect(true, "the other pod is gone")
		w.must(stop())
		if a.Alone() {
			t.Error("after the end nothing is held")
		}
	})
}

// TestRenewals: a Lease is renewed each third of its duration, however long that takes, and more often while it fails,
// which the log tells once.
func TestRenewals(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, a *member) {
		a.takes = time.Second // each; a renewal is two requests
		began := time.Now()
		expectRenewed := func(after time.Duration) {
			t.Helper()
			if renewed := w.readLease("a").Spec.RenewTime.Sub(began); renewed < after || renewed > after+a.takes {
				t.Errorf("expected a renewal that begins after %s, but found one after %s", after, renewed)
			}
		}
		stop := a.run()
		passTime(13 * time.Second)
		expectRenewed(10 * time.Second)

		a.cut.Store(true)
		passTime(5 * time.Second) // the renewal from 15 s to 20 s fails; it is tried again at 21 s
		a.cut.Store(false)
		passTime(5 * time.Second)
		expectRenewed(21 * time.Second)
		passTime(10 * time.Second)

		a.cut.Store(true)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]int{"cannot renew": 1, "renewed the Lease": 1, "wait for its expiry": 1} {
			if found := strings.Count(a.log.String(), text); found != want {
				t.Errorf("expected %q %d times in the log, but found it %d times:\n%s", text, want, found, a.log.String())
			}
		}
	})
}

// TestNobodyDiesInALapse: who could not renew its Lease could not see the others renew theirs.
func TestNobodyDiesInALapse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, a *member) {
		w.pod("b")
		w.lease("b", "b/1")
		a.see()
		stop := a.run()
		a.cut.Store(true)
		passTime(2 * leaseDuration)
		if !a.SeemsDead("b", "b/1") {
			t.Error("the time of b is not over")
		}
		a.cut.Store(false)
		passTime(leaseDuration - time.Second)
		if !a.Valid() || a.SeemsDead("b", "b/1") {
			t.Error("b has not had its whole time since")
		}
		passTime(leaseDuration / 2)
		if dead, err := a.IsDead(t.Context(), "b", "b/1"); !dead || err != nil {
			t.Errorf("b is dead: %t, %v", dead, err)
		}
		w.must(stop())
	})
}

// TestReplaced: a process whose Lease has gone to another one, or has gone with its pod, has to end.
func TestReplaced(t *testing.T) {
	for name, happen := range map[string]func(*world){
		"restarted": func(w *world) { w.replica("a") },
		"deleted":   func(w *world) { w.deleteLease("a") },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world, a *member) {
				stop := a.run()
				happen(w)
				passTime(leaseDuration / 3)
				if a.Valid() {
					t.Error("still valid after the time of a renewal")
				}
				if err := stop(); !errors.Is(err, ErrReplaced) {
					t.Errorf("Run ended with %v", err)
				}
			})
		})
	}
}

func TestJoinNeedsAPod(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*world)
		want    string
	}{
		"none":     {func(*world) {}, "MY_POD_NAMESPACE"},
		"finished": {func(w *world) { w.pod("a"); w.finishPod("a") }, "phase Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.prepare(w)
			r := newReplicas(w.server, &view{}, ReplicaOptions{Namespace: namespace, PodName: "a", LeaseDuration: leaseDuration})
			if err := r.takeLease(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("expected an error with %q, but found %v", tc.want, err)
			}
		})
	}
}
