package lock

import (
	"context"
	"errors"
	"io"
	"log/slog"
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
		map[string]string{labelReplica: "true", labelGroup: groupLabel("")}
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
	// told is how often the subscriber was called.
	told atomic.Int32
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
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
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
	const dead, alive = true, false
	pod := func(w *world, me *member) { w.pod("a"); me.see() }
	replica := func(w *world, me *member) { w.pod("a"); w.lease("a", "a/1"); me.see() }
	expired := func(w *world, me *member) { replica(w, me); passTime(leaseDuration); me.see() }
	deletedLease := func(w *world, me *member) { replica(w, me); w.deleteLease("a"); me.see() }
	asked := func(w *world, me *member) { pod(w, me); me.SeemsDead("a", "a/1") }
	for name, tc := range map[string]struct {
		reason       string
		pod, process string
		happen       func(*world, *member)
		seems, is    bool
	}{
		"no pod name": {reason: "nothing can be found out about it", pod: "nopodname"},
		"own":         {reason: "it is us", pod: "me"},
		"own before":  {reason: "a pod's name is its own", pod: "me", process: "me/0", seems: dead, is: dead},
		"pod deleted": {reason: "there is none", pod: "a", process: "a/1", seems: dead, is: dead},
		"pod unseen": {reason: "the watch is late", pod: "a",
			happen: func(w *world, _ *member) { w.pod("a") }, seems: dead},
		"pod unseen, process": {reason: "the watches are late", pod: "a", process: "a/1",
			happen: func(w *world, _ *member) { w.pod("a"); w.lease("a", "a/1") }, seems: dead},
		"pod finished": {reason: "it does not run any more", pod: "a", seems: dead, is: dead,
			happen: func(w *world, me *member) {
				pod(w, me)
				w.finishPod("a")
				me.see()
			}},
		"pod without Lease": {reason: "of another implementation no more is known", pod: "a", is: alive,
			happen: func(w *world, me *member) {
				pod(w, me)
				me.SeemsDead("a", "")
				passTime(2 * leaseDuration)
				me.see()
			}},
		"pod with expired Lease": {reason: "who has no process has no Lease", pod: "a", happen: expired},
		"replica":                {reason: "it has the Lease", pod: "a", process: "a/1", happen: replica},
		"followed": {reason: "another process has the Lease", pod: "a", process: "a/0",
			happen: replica, seems: dead, is: dead},
		"following": {reason: "the watch is late", pod: "a", process: "a/2", seems: dead,
			happen: func(w *world, me *member) { replica(w, me); w.lease("a", "a/2") }},
		"given back": {reason: "it says that it has ended", pod: "a", process: "a/1", seems: dead, is: dead,
			happen: func(w *world, me *member) { replica(w, me); w.lease("a", ""); me.see() }},
		"expired": {reason: "nobody renews it", pod: "a", process: "a/1",
			happen: expired, seems: dead, is: dead},
		"not yet expired": {reason: "it may still be renewed", pod: "a", process: "a/1",
			happen: func(w *world, me *member) {
				replica(w, me)
				passTime(leaseDuration - time.Second)
				me.see()
			}},
		"renewed": {reason: "it was only cut off", pod: "a", process: "a/1",
			happen: func(w *world, me *member) { expired(w, me); w.lease("a", "a/1"); me.see() }},
		"renewed unseen": {reason: "the watch is late", pod: "a", process: "a/1", seems: dead,
			happen: func(w *world, me *member) { expired(w, me); w.lease("a", "a/1") }},
		"renewed by a clock that goes wrong": {reason: "clocks of others do not matter", pod: "a", process: "a/1",
			happen: func(w *world, me *member) {
				expired(w, me)
				w.lease("a", "a/1", func(l *coordinationv1.Lease) {
					l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour)))
				})
				me.see()
			}},
		"touched": {reason: "a label is no renewal", pod: "a", process: "a/1", seems: dead, is: dead,
			happen: func(w *world, me *member) {
				replica(w, me)
				renewed := metav1.NowMicro()
				passTime(leaseDuration)
				w.lease("a", "a/1", func(l *coordinationv1.Lease) { l.Spec.RenewTime, l.Labels["x"] = &renewed, "y" })
				me.see()
			}},
		"its own duration": {reason: "a replica of another configuration says itself how long", pod: "a", process: "a/1",
			happen: func(w *world, me *member) {
				w.pod("a")
				w.lease("a", "a/1", func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To(int32(60)) })
				me.see()
				passTime(59 * time.Second)
				me.see()
			}},
		"Lease deleted": {reason: "its holder ends, and has the time to", pod: "a", process: "a/1",
			happen: deletedLease},
		"Lease deleted unseen": {reason: "so does one whose Lease went after it had been renewed unseen", pod: "a",
			process: "a/1", seems: dead,
			happen: func(w *world, me *member) { expired(w, me); w.deleteLease("a") }},
		"Lease deleted for long": {reason: "who is alive has one", pod: "a", process: "a/1", seems: dead, is: dead,
			happen: func(w *world, me *member) { deletedLease(w, me); passTime(leaseDuration); me.see() }},
		"never a Lease": {reason: "it may be about to make one", pod: "a", process: "a/1",
			happen: func(w *world, me *member) {
				asked(w, me)
				passTime(leaseDuration - time.Second)
				me.see()
			}},
		"never a Lease for long": {reason: "who is alive has one", pod: "a", process: "a/1", seems: dead, is: dead,
			happen: func(w *world, me *member) { asked(w, me); passTime(leaseDuration); me.see() }},
		"never a Lease, and one unseen": {reason: "the watch is late", pod: "a", process: "a/1", seems: dead,
			happen: func(w *world, me *member) { asked(w, me); passTime(leaseDuration); me.see(); w.lease("a", "a/1") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.pod("me")
				me := w.replica("me")
				me.see()
				if tc.happen != nil {
					tc.happen(w, me)
				}
				if tc.pod == "me" && tc.process == "" {
					tc.process = me.Process()
				}
				if got := me.SeemsDead(tc.pod, tc.process); got != tc.seems {
					t.Errorf("%s: seems dead: %t", tc.reason, got)
				}
				if !tc.seems || tc.pod == "me" {
					return
				}
				if got, err := me.IsDead(t.Context(), tc.pod, tc.process); got != tc.is || err != nil {
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
