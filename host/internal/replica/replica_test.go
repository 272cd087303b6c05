package replica

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestLeaseIsKept(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	pod := n.createPod(t, "a")
	a := n.start(t, "a")
	first := n.lease(t, "a")
	wantLabels := map[string]string{LabelReplica: "true", LabelGroup: GroupLabel("g")}
	wantOwners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: pod.UID}}
	if diff := cmp.Diff(wantLabels, first.Labels) + cmp.Diff(wantOwners, first.OwnerReferences); diff != "" {
		t.Error(diff)
	}
	if got := *first.Spec.HolderIdentity; got != a.Process() || !strings.HasPrefix(got, "a/") || *first.Spec.LeaseDurationSeconds != 3 {
		t.Errorf("the Lease says %+v, the process is %s", first.Spec, a.Process())
	}
	eventually(t, "renewal", func() bool { return n.lease(t, "a").Spec.RenewTime.After(first.Spec.RenewTime.Time) })

	// What others change on the Lease is no reason to give up, and neither is its deletion.
	touched := n.lease(t, "a")
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`))
	if err := admin.Patch(t.Context(), touched, label); err != nil {
		t.Fatal(err)
	}
	eventually(t, "renewal after a change", func() bool { return n.lease(t, "a").Spec.RenewTime.After(touched.Spec.RenewTime.Time) })
	if err := admin.Delete(t.Context(), touched); err != nil {
		t.Fatal(err)
	}
	eventually(t, "new Lease", func() bool {
		lease := &coordinationv1.Lease{}
		return admin.Get(t.Context(), client.ObjectKeyFromObject(touched), lease) == nil && *lease.Spec.HolderIdentity == a.Process()
	})
	if !a.Valid() {
		t.Error("not valid")
	}
	a.stop()
	if got := n.lease(t, "a").Spec; a.err != nil || *got.HolderIdentity != "" || a.Valid() {
		t.Errorf("Run returned %v, the holder is %q, valid %t", a.err, *got.HolderIdentity, a.Valid())
	}
	if lapsed, _, _ := a.heard.lapses(); lapsed != 1 {
		t.Errorf("the listener heard %d times that Run ended", lapsed)
	}
}

func TestReplicasSeeEachOther(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.createPod(t, "a")
	n.createPod(t, "b")
	a, b := n.start(t, "a"), n.start(t, "b")
	rank := func() bool { return a.Rank(plugin, "key") != b.Rank(plugin, "key") && a.Elected() != b.Elected() }
	eventually(t, "different ranks", rank)
	if b.Verdict("a", a.Process()) != Alive || b.Verdict("a", "") != Alive {
		t.Error("a is dead")
	}

	if err := a.Leave(t.Context()); err != nil {
		t.Fatalf("leave: %v", err)
	}
	eventually(t, "b takes everything", func() bool {
		return a.Rank(plugin, "key") == 1 && b.Elected() && b.Rank(plugin, "key") == 0 && b.Rank(plugin, "other") == 0 && b.Rank(plugin, "one") == 0
	})
	if a.Elected() || !a.Valid() || b.Verdict("a", a.Process()) != Alive {
		t.Error("who leaves is not elected, but alive")
	}
	first := n.lease(t, "a")
	eventually(t, "renewal by who leaves", func() bool { return n.lease(t, "a").Spec.RenewTime.After(first.Spec.RenewTime.Time) })
	if n.lease(t, "a").Annotations[annotationLeaving] != "true" {
		t.Error("the renewal does not say that the replica leaves")
	}

	a.stop()
	stopped := time.Now()
	eventually(t, "a is dead", func() bool { return b.Verdict("a", a.Process()) == Dead && b.Verdict("a", "") == Dead })
	if took := time.Since(stopped); took > leaseDuration/2 {
		t.Errorf("that a has given its Lease back was known after %s", took)
	}
	if b.heard.deaths("a") == 0 {
		t.Error("the listener heard nothing")
	}
	if err := a.Leave(t.Context()); err != nil || *n.lease(t, "a").Spec.HolderIdentity != "" {
		t.Errorf("the Lease was taken again after it was given back: %v", err)
	}
}

func TestPodsDie(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		die    func(*testing.T, namespace, *corev1.Pod)
	}{
		"deleted":   {"there is no pod any more", func(t *testing.T, n namespace, pod *corev1.Pod) { n.deletePod(t, pod) }},
		"failed":    {"a pod that has finished does not run", finish(corev1.PodFailed)},
		"succeeded": {"a pod that has finished does not run", finish(corev1.PodSucceeded)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNamespace(t)
			pod, other := n.createPod(t, "a"), n.createPod(t, "foreign")
			n.createPod(t, "b")
			a, b := n.start(t, "a"), n.start(t, "b")
			if b.Verdict("a", "") != Alive || b.Verdict("foreign", "") != Alive {
				t.Fatal("dead before its time")
			}
			tc.die(t, n, pod)
			tc.die(t, n, other)
			for _, podName := range []string{"a", "foreign"} {
				eventually(t, podName+" is dead", func() bool { return b.heard.deaths(podName) > 0 })
				if b.Verdict(podName, "") != Dead {
					t.Errorf("%s: %s is alive", tc.reason, podName)
				}
			}
			<-a.ended
			if !errors.Is(a.err, ErrReplaced) || a.Valid() {
				t.Errorf("%s: Run returned %v, valid %t", tc.reason, a.err, a.Valid())
			}
			if lapsed, _, _ := a.heard.lapses(); lapsed != 1 {
				t.Errorf("%s: the listener of the dead heard %d times that it lapsed", tc.reason, lapsed)
			}
		})
	}
}

func finish(phase corev1.PodPhase) func(*testing.T, namespace, *corev1.Pod) {
	return func(t *testing.T, _ namespace, pod *corev1.Pod) {
		t.Helper()
		pod.Status.Phase = phase
		if err := admin.Status().Update(t.Context(), pod); err != nil {
			t.Fatalf("update pod: %v", err)
		}
	}
}

func TestPodThatNeverWas(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.createPod(t, "a")
	a := n.start(t, "a")
	if a.Verdict("gone", "gone/1") != Alive {
		t.Error("dead without a confirmation")
	}
	eventually(t, "death", func() bool { return a.heard.deaths("gone") == 1 })
	if a.Verdict("gone", "gone/1") != Dead {
		t.Error("not dead after the listener heard so")
	}
	n.createPod(t, "gone")
	eventually(t, "a pod of that name", func() bool { return a.Verdict("gone", "") == Alive })
}

// TestSuccessorWithoutLease has a pod replaced under its own name by one that never becomes a replica.
func TestSuccessorWithoutLease(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	pod := n.createPod(t, "a")
	n.createPod(t, "b")
	a, b := n.start(t, "a"), n.start(t, "b")
	eventually(t, "they see each other", func() bool { return b.Rank(plugin, "x")+a.Rank(plugin, "x") == 1 })
	a.network.cut.Store(true)
	n.deletePod(t, pod)
	n.createPod(t, "a")
	if err := admin.Delete(t.Context(), n.lease(t, "a")); err != nil { // as the garbage collector does
		t.Fatal(err)
	}
	eventually(t, "the first is dead", func() bool { return b.heard.deaths("a") > 0 && b.Verdict("a", a.Process()) == Dead })
	if b.Verdict("a", "") != Alive || b.Rank(plugin, "x") != 0 {
		t.Error("the pod is dead, or still shares the work")
	}
}

// TestProcessWithoutLease has a process asked about that nothing is known of but its pod.
func TestProcessWithoutLease(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.createPod(t, "a")
	n.createPod(t, "other")
	a, began := n.start(t, "a"), time.Now()
	if a.Verdict("other", "other/1") != Alive || a.Verdict("other", "") != Alive {
		t.Error("dead before its time")
	}
	eventually(t, "death", func() bool { return a.heard.deaths("other") > 0 })
	if took := time.Since(began); a.Verdict("other", "other/1") != Dead || a.Verdict("other", "") != Alive || took < leaseDuration {
		t.Errorf("the process is %s and the pod %s after %s", a.Verdict("other", "other/1"), a.Verdict("other", ""), took)
	}
}

func TestProcessIsReplaced(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.createPod(t, "a")
	n.createPod(t, "b")
	first, b := n.start(t, "a"), n.start(t, "b")
	eventually(t, "b sees the first process", func() bool { return b.Rank(plugin, "x")+first.Rank(plugin, "x") == 1 })
	if err := first.Leave(t.Context()); err != nil {
		t.Fatalf("leave: %v", err)
	}
	second := n.start(t, "a")
	<-first.ended
	if !errors.Is(first.err, ErrReplaced) || first.Valid() {
		t.Errorf("Run of the first process returned %v, valid %t", first.err, first.Valid())
	}
	eventually(t, "the first is dead", func() bool { return b.Verdict("a", first.Process()) == Dead && b.heard.deaths("a") > 0 })
	if b.Verdict("a", second.Process()) != Alive || b.Verdict("a", "") != Alive || !second.Valid() {
		t.Error("the second is not alive")
	}
	if lease := n.lease(t, "a"); *lease.Spec.LeaseTransitions != 1 || lease.Annotations[annotationLeaving] != "" {
		t.Errorf("the Lease says %d transitions, and %v", *lease.Spec.LeaseTransitions, lease.Annotations)
	}
	if err := first.Leave(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Errorf("the first leaves with %v", err)
	}
}

// TestLostNode has a replica cut off for good, with its pod still there.
func TestLostNode(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.createPod(t, "a")
	n.createPod(t, "b")
	a, b := n.start(t, "a"), n.start(t, "b")
	b.Verdict("a", a.Process())
	cut := time.Now()
	a.network.cut.Store(true)
	eventually(t, "a has lapsed", func() bool { lapsed, _, _ := a.heard.lapses(); return lapsed == 1 })
	if b.Verdict("a", a.Process()) != Alive {
		t.Errorf("dead %s after it was cut off, when it has only just lapsed itself", time.Since(cut))
	}
	eventually(t, "a is dead", func() bool { return b.heard.deaths("a") > 0 })
	if took := time.Since(cut); b.Verdict("a", a.Process()) != Dead || took < leaseDuration*2/3 || took > 2*leaseDuration {
		t.Errorf("%s after %s", b.Verdict("a", a.Process()), took)
	}
	if _, _, confused := a.heard.lapses(); a.Valid() || confused {
		t.Error("the dead count themselves as valid")
	}
	if a.Verdict("b", b.Process()) != Alive {
		t.Error("who is cut off takes the others for dead")
	}
	a.stop()
	if a.err != nil {
		t.Errorf("Run returned %v, although only the Lease could not be given back", a.err)
	}
}

func TestPartition(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.createPod(t, "a")
	a := n.start(t, "a")
	for round := 1; round <= 2; round++ {
		cut := time.Now()
		a.network.cut.Store(true)
		eventually(t, "lapse", func() bool { lapsed, _, _ := a.heard.lapses(); return lapsed == round })
		if took := time.Since(cut); a.Valid() || took > leaseDuration {
			t.Errorf("lapsed after %s, valid %t", took, a.Valid())
		}
		a.network.cut.Store(false)
		eventually(t, "renewal", func() bool { _, renewed, _ := a.heard.lapses(); return renewed == round })
		if !a.Valid() {
			t.Error("not valid although it is renewed")
		}
	}
}

// TestLateWatch has a replica that does not see the renewals of another one in its watch.
func TestLateWatch(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.createPod(t, "a")
	n.createPod(t, "b")
	a, b := n.start(t, "a"), n.start(t, "b")
	b.Verdict("a", a.Process())
	b.network.late.Store(true)
	before := b.network.gets.Load()
	eventually(t, "b reads the Lease itself, twice", func() bool {
		if b.Verdict("a", a.Process()) == Dead || b.heard.deaths("a") > 0 {
			t.Fatal("dead although its Lease is renewed")
		}
		return b.network.gets.Load() >= before+2
	})
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.createPod(t, "a")
	a := n.start(t, "a")
	a.network.cut.Store(true)
	eventually(t, "lapse", func() bool { a.Verdict("gone", ""); lapsed, _, _ := a.heard.lapses(); return lapsed > 0 })
	if a.Verdict("gone", "") != Alive {
		t.Error("dead although nobody could look")
	}
	a.network.cut.Store(false)
	eventually(t, "death is found out when it can be", func() bool { return a.Verdict("gone", "") == Dead })
}

// TestNothingGoesOn is not parallel: it counts the goroutines.
func TestNothingGoesOn(t *testing.T) {
	n := newNamespace(t)
	n.createPod(t, "a")
	n.createPod(t, "b")
	for range 2 { // the first time leaves connections behind that are used again
		a, b := n.start(t, "a"), n.start(t, "b")
		eventually(t, "they see each other", func() bool { return a.Rank(plugin, "x")+b.Rank(plugin, "x") == 1 })
		a.stop()
		b.stop()
	}
	eventually(t, "no goroutine of this package is left", func() bool { return !strings.Contains(stacks(), "replica.(*Replicas)") })
	eventually(t, "no watch is left", func() bool { return !strings.Contains(stacks(), "tools/cache.(*Reflector)") })
	eventually(t, "no queue is left", func() bool { return !strings.Contains(stacks(), "util/workqueue") })
}

func stacks() string {
	all := make([]byte, 1<<20)
	return string(all[:runtime.Stack(all, true)])
}

// TestNamespaceOnly has a pod of the same name in another namespace.
func TestNamespaceOnly(t *testing.T) {
	t.Parallel()
	n, other := newNamespace(t), newNamespace(t)
	n.createPod(t, "a")
	other.createPod(t, "b")
	a := n.start(t, "a")
	a.Verdict("b", "")
	eventually(t, "b is not of this namespace", func() bool { return a.Verdict("b", "") == Dead })
	err := admin.Get(t.Context(), client.ObjectKey{Namespace: string(other), Name: LeaseName("a")}, &coordinationv1.Lease{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a Lease in another namespace: %v", err)
	}
}
