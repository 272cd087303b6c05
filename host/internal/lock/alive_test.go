package lock

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/host/internal/hostlease"
)

const (
	namespace     = "hosts"
	leaseDuration = 15 * time.Second
)

// passTime lets time pass in a bubble of synctest, and what is due happen.
func passTime(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// world is the cluster of the hosts' pods.
type world struct {
	t      *testing.T
	server client.WithWatch
}

func newWorld(t *testing.T) *world { return &world{t: t, server: newServer()} }

// inWorld runs a test in a bubble of synctest, with a replica in the pod "a".
func inWorld(t *testing.T, test func(t *testing.T, w *world, a *member)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("a")
		test(t, w, w.replica("a"))
	})
}

// must fails the test upon an error.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// metaOf is that of a pod, or of its Lease.
func metaOf(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}
}

func (w *world) pod(name string) {
	w.t.Helper()
	w.must(w.server.Create(context.Background(), &corev1.Pod{ObjectMeta: metaOf(name)}))
}

func (w *world) finishPod(name string) {
	w.t.Helper()
	pod := &corev1.Pod{}
	w.must(w.server.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, pod))
	pod.Status.Phase = corev1.PodFailed
	w.must(w.server.Status().Update(context.Background(), pod))
}

func (w *world) deletePod(name string) {
	w.t.Helper()
	w.must(w.server.Delete(context.Background(), &corev1.Pod{ObjectMeta: metaOf(name)}))
}

// lease writes the Lease of a pod, as a renewal by a process.
func (w *world) lease(podName, process string, change ...func(*coordinationv1.Lease)) {
	w.t.Helper()
	lease := &coordinationv1.Lease{}
	err := w.server.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: podName}, lease)
	missing := apierrors.IsNotFound(err)
	lease.Namespace, lease.Name, lease.Labels = namespace, podName,
		map[string]string{labelReplica: "true", hostlease.Label: groupLabel("")}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &process, RenewTime: ptr.To(metav1.NowMicro()),
		LeaseDurationSeconds: ptr.To(int32(15))}
	for _, c := range change {
		c(lease)
	}
	if missing {
		w.must(w.server.Create(context.Background(), lease))
	} else {
		w.must(w.server.Update(context.Background(), lease))
	}
}

func (w *world) deleteLease(podName string) {
	w.t.Helper()
	w.must(w.server.Delete(context.Background(), &coordinationv1.Lease{ObjectMeta: metaOf(podName)}))
}

// view is the cache of a replica: what was there when it saw it last.
type view struct {
	mu     sync.Mutex
	pods   map[string]bool
	leases []coordinationv1.Lease
}

func (v *view) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.pods[key.Name] {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	return nil
}

func (v *view) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	list.(*coordinationv1.LeaseList).Items = v.leases
	return nil
}

// see shows what there is.
func (v *view) see(w *world) {
	w.t.Helper()
	pods, leases := &corev1.PodList{}, &coordinationv1.LeaseList{}
	w.must(errors.Join(w.server.List(context.Background(), pods), w.server.List(context.Background(), leases)))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pods, v.leases = map[string]bool{}, leases.Items
	for _, pod := range pods.Items {
		v.pods[pod.Name] = !finished(&pod)
	}
}

// member is a replica whose cache sees something when a test says so.
type member struct {
	*Replicas
	w    *world
	view *view
	// cut has its requests wait until their time is over.
	cut atomic.Bool
	// takes is how long its requests take.
	takes time.Duration
	// told is how often the subscriber was called.
	told atomic.Int32
	log  bytes.Buffer
}

// replica returns a replica that has joined. Its Lease is not renewed before it is run.
func (w *world) replica(podName string) *member {
	w.t.Helper()
	m := &member{w: w, view: &view{}}
	api := interceptor.NewClient(w.server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			opts ...client.GetOption) error {
			return m.request(ctx, func() error { return c.Get(ctx, key, object, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.UpdateOption) error {
			return m.request(ctx, func() error { return c.Update(ctx, object, opts...) })
		},
	})
	o := ReplicaOptions{Namespace: namespace, PodName: podName, LeaseDuration: leaseDuration,
		Log: slog.New(slog.NewTextHandler(&m.log, nil))}
	m.Replicas = newReplicas(api, m.view, o)
	m.stopCache = func() error { return nil }
	m.Subscribe(func() { m.told.Add(1) })
	w.must(m.takeLease(context.Background()))
	return m
}

func (m *member) request(ctx context.Context, do func() error) error {
	if m.cut.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(m.takes)
	return do()
}

// see has the replica see what there is.
func (m *member) see() {
	m.w.t.Helper()
	m.view.see(m.w)
	m.refresh(context.Background())
}

// run runs the replica until the function that it returns is called, which returns the error of Run.
func (m *member) run() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	synctest.Wait()
	return func() error {
		cancel()
		return <-ended
	}
}

// TestDead is who counts as dead: what seems so from what the watches show, and what is so when Pod and Lease are
// read.
func TestDead(t *testing.T) {
	type step = func(*world, *member)
	see := func(_ *world, me *member) { me.see() }
	pass := func(d time.Duration) step { return func(*world, *member) { passTime(d) } }
	pod := func(w *world, _ *member) { w.pod("a") }
	finishPod := func(w *world, _ *member) { w.finishPod("a") }
	lease := func(process string, change ...func(*coordinationv1.Lease)) step {
		return func(w *world, _ *member) { w.lease("a", process, change...) }
	}
	deleteLease := func(w *world, _ *member) { w.deleteLease("a") }
	ask := func(process string) step { return func(_ *world, me *member) { me.SeemsDead("a", process) } }
	after := func(first []step, more ...step) []step { return slices.Concat(first, more) }
	hourAgo := func(l *coordinationv1.Lease) {
		l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour)))
	}
	label := func(l *coordinationv1.Lease) {
		l.Spec.RenewTime, l.Labels["x"] = ptr.To(metav1.NewMicroTime(time.Now().Add(-leaseDuration))), "y"
	}
	minute := func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To(int32(60)) }
	noDuration := func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = nil }
	replica := []step{pod, lease("a/1"), see}
	expired := after(replica, pass(leaseDuration), see)
	noLease := []step{pod, see, ask("a/1")}
	const alive, seems, dead = 0, 1, 2
	for name, tc := range map[string]struct {
		reason       string
		pod, process string // "me" without a process is this one
		steps        []step
		is           int
	}{
		"no pod name": {"nothing can be found out about it", "nopodname", "", nil, alive},
		"own":         {"it is us", "me", "", nil, alive},
		"own before":  {"a pod's name is its own", "me", "me/0", nil, dead},
		// Rule (architecture.md#locks): A holder is dead when its Pod is gone.
		"pod deleted":         {"there is none", "a", "a/1", nil, dead},
		"pod unseen":          {"the watch is late", "a", "", []step{pod}, seems},
		"pod unseen, process": {"the watches are late", "a", "a/1", []step{pod, lease("a/1")}, seems},
		"pod finished":        {"it does not run any more", "a", "", []step{pod, see, finishPod, see}, dead},
		// Rule (architecture.md#locks): A holder of another implementation is alive as long as its Pod is there.
		"pod without Lease": {"of another implementation no more is known", "a", "",
			[]step{pod, see, ask(""), pass(2 * leaseDuration), see}, alive},
		"pod with expired Lease": {"who has no process has no Lease", "a", "", expired, alive},
		"replica":                {"it has the Lease", "a", "a/1", replica, alive},
		"followed":               {"another process has the Lease", "a", "a/0", replica, dead},
		"following":              {"the watch is late", "a", "a/2", after(replica, lease("a/2")), seems},
		"given back":             {"it says that it has ended", "a", "a/1", after(replica, lease(""), see), dead},
		// Rule (architecture.md#locks): A holder is dead when its Lease has expired.
		"expired": {"nobody renews it", "a", "a/1", expired, dead},
		"not yet expired": {"it may still be renewed", "a", "a/1",
			after(replica, pass(leaseDuration-time.Second), see), alive},
		"renewed":        {"it was only cut off", "a", "a/1", after(expired, lease("a/1"), see), alive},
		"renewed unseen": {"the watch is late", "a", "a/1", after(expired, lease("a/1")), seems},
		"renewed by a clock that goes wrong": {"clocks of others do not matter", "a", "a/1",
			after(expired, lease("a/1", hourAgo), see), alive},
		"touched": {"a label is no renewal", "a", "a/1", after(replica, pass(leaseDuration), lease("a/1", label), see), dead},
		"its own duration": {"a replica of another configuration says itself how long", "a", "a/1",
			[]step{pod, lease("a/1", minute), see, pass(59 * time.Second), see}, alive},
		"no duration of its own": {"it has the time of the others", "a", "a/1",
			[]step{pod, lease("a/1", noDuration), see, pass(leaseDuration - time.Second), see}, alive},
		"Lease deleted": {"its holder ends, and has the time to", "a", "a/1", after(replica, deleteLease, see), alive},
		"Lease deleted unseen": {"so does one whose Lease went after it had been renewed unseen", "a", "a/1",
			after(expired, deleteLease), seems},
		"Lease deleted for long": {"who is alive has one", "a", "a/1",
			after(replica, deleteLease, see, pass(leaseDuration), see), dead},
		"never a Lease": {"it may be about to make one", "a", "a/1",
			after(noLease, pass(leaseDuration-time.Second), see), alive},
		"never a Lease for long": {"who is alive has one", "a", "a/1", after(noLease, pass(leaseDuration), see), dead},
		"never a Lease, and one unseen": {"the watch is late", "a", "a/1",
			after(noLease, pass(leaseDuration), see, lease("a/1")), seems},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.pod("me")
				me := w.replica("me")
				me.see()
				for _, step := range tc.steps {
					step(w, me)
				}
				if tc.pod == "me" && tc.process == "" {
					tc.process = me.Process()
				}
				if got := me.SeemsDead(tc.pod, tc.process); got != (tc.is >= seems) {
					t.Errorf("%s: seems dead: %t", tc.reason, got)
				}
				if tc.is == alive || tc.pod == "me" {
					return
				}
				if got, err := me.IsDead(t.Context(), tc.pod, tc.process); got != (tc.is == dead) || err != nil {
					t.Errorf("%s: is dead: %t, %v", tc.reason, got, err)
				}
				me.cut.Store(true)
				if got, err := me.IsDead(t.Context(), tc.pod, tc.process); got || err == nil {
					t.Errorf("not to know is not to be dead, but found %t, %v", got, err)
				}
			})
		})
	}
}

// TestChangesAreTold: who waits for a death hears of it, and so does who wants to know who shares the work.
func TestChangesAreTold(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		happen func(*world, *member)
		told   bool
	}{
		"renewal":         {"nothing has changed", func(w *world, _ *member) { w.lease("a", "a/1") }, false},
		"another pod":     {"it is nothing to a replica", func(w *world, _ *member) { w.pod("other") }, false},
		"pod deleted":     {"it is dead", func(w *world, _ *member) { w.deletePod("a") }, true},
		"restart":         {"the process before is dead", func(w *world, _ *member) { w.lease("a", "a/2") }, true},
		"given back":      {"it is dead", func(w *world, _ *member) { w.lease("a", "") }, true},
		"foreign deleted": {"somebody has asked about it", func(w *world, _ *member) { w.deletePod("foreign") }, true},
		"expired":         {"nobody has renewed it", func(*world, *member) { passTime(leaseDuration) }, true},
		"plugins": {"others share the work", func(w *world, _ *member) {
			w.lease("a", "a/1", func(l *coordinationv1.Lease) { l.Annotations = map[string]string{annotationPlugins: "helm"} })
		}, true},
		"own plugins": {"the work is shared anew", func(_ *world, me *member) { me.Serve([]string{"helm"}) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				for _, podName := range []string{"me", "a", "foreign"} {
					w.pod(podName)
				}
				w.lease("a", "a/1")
				me := w.replica("me")
				me.see()
				me.SeemsDead("foreign", "")
				stop := me.run()
				before := me.told.Load()
				tc.happen(w, me)
				me.view.see(w)
				signal(me.look)
				synctest.Wait()
				if told := me.told.Load() > before; told != tc.told {
					t.Errorf("%s, but told: %t", tc.reason, told)
				}
				w.must(stop())
			})
		})
	}
}
