package lock

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// admin is the API server of the tests, and its administrator.
var admin = newServer()

func newServer() client.WithWatch {
	scheme, err := testenv.Scheme()
	if err != nil {
		panic(err) //nolint:forbidigo // there is no test yet that could fail
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithGlobalResourceVersionCounter().Build()
}

// bench is a Locker whose watch is a test that says when it sees what.
type bench struct {
	*Locker
	*fakeReplicas
	t       *testing.T
	api     *flakyAPI
	metrics *Metrics
	// told is what the listener has heard.
	told []string
}

var _ Listener = (*bench)(nil)

// newBench returns the Locker of a pod, whose process is "<pod>/1".
func newBench(t *testing.T, pod string, change ...func(*Options)) *bench {
	t.Helper()
	b := &bench{
		t: t, api: &flakyAPI{API: admin}, metrics: NewMetrics(),
		fakeReplicas: &fakeReplicas{pod: pod, process: pod + "/1", valid: true, dead: map[string]bool{}},
	}
	b.metrics.Add("one")
	o := Options{API: b.api, Replicas: b.fakeReplicas, Listener: b, Metrics: b.metrics,
		Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&o)
	}
	b.Locker = New(o)
	return b
}

// Rank and Serve are those of the Locker.
func (b *bench) Rank(key Key) int       { return b.Locker.Rank(key) }
func (b *bench) Serve(plugins []string) { b.Locker.Serve(plugins) }

func (b *bench) Freed(key Key) { b.told = append(b.told, "freed "+key.Item.Name) }
func (b *bench) Lost(key Key)  { b.told = append(b.told, "lost "+key.Item.Name) }

// expectTold checks what the listener has heard since the last time.
func (b *bench) expectTold(reason string, want ...string) {
	b.t.Helper()
	if !slices.Equal(b.told, want) {
		b.t.Errorf("%s: expected the listener to hear %q, but it heard %q", reason, want, b.told)
	}
	b.told = nil
}

// see delivers what the watch would.
func (b *bench) see(key Key) {
	b.t.Helper()
	if object := readLock(b.t, key); object != nil {
		b.Seen(object)
	}
}

// lapse has the replica not be able to show that it is alive.
func (b *bench) lapse() {
	b.valid = false
	b.ReplicasChanged()
	b.valid = true
}

func (b *bench) acquire(key Key) *Lock {
	b.t.Helper()
	lock, err := b.Acquire(b.t.Context(), key)
	if err != nil {
		b.t.Fatal(err)
	}
	return lock
}

func (b *bench) acquireInVain(reason string, key Key) {
	b.t.Helper()
	if _, err := b.Acquire(b.t.Context(), key); !errors.Is(err, ErrHeld) {
		b.t.Errorf("%s: expected %q, but found %v", reason, ErrHeld, err)
	}
}

func (b *bench) release(key Key, settled string) {
	b.t.Helper()
	if err := b.Release(b.t.Context(), key, settled); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) expectView(reason string, key Key, version string, want View) {
	b.t.Helper()
	if got := b.Look(key, version); got != want {
		b.t.Errorf("%s: expected view %d, but found %d", reason, want, got)
	}
}

// figures are the metrics of the plugin "one".
type figures struct{ Held, Acquired, TakenOver, Conflicts, Lost float64 }

func (b *bench) expectFigures(want figures) {
	b.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	err := b.metrics.Register(registry)
	families, gatherErr := registry.Gather()
	if err = errors.Join(err, gatherErr); err != nil {
		b.t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		metric := family.GetMetric()[0]
		values[family.GetName()] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		if plugin := metric.GetLabel()[0].GetValue(); plugin != "one" {
			b.t.Errorf("%s is of plugin %q", family.GetName(), plugin)
		}
	}
	got := figures{
		Held: values["pergola_locks_held"], Acquired: values["pergola_lock_acquisitions_total"],
		TakenOver: values["pergola_lock_takeovers_total"], Conflicts: values["pergola_lock_conflicts_total"],
		Lost: values["pergola_locks_lost_total"],
	}
	if got != want || len(values) != 5 { // a counter is there before its first event
		b.t.Errorf("expected the figures %+v, but found %v", want, values)
	}
}

// fakeReplicas are what a test says that they are.
type fakeReplicas struct {
	pod, process string
	valid, alone bool
	dead         map[string]bool // names of pods
	seemDead     []string        // pods that are not dead; it cannot be found out whether "unreadable" is
	rank         int
}

var _ Membership = (*fakeReplicas)(nil)

func (f *fakeReplicas) PodName() string         { return f.pod }
func (f *fakeReplicas) Process() string         { return f.process }
func (f *fakeReplicas) Valid() bool             { return f.valid }
func (f *fakeReplicas) Alone() bool             { return f.alone }
func (f *fakeReplicas) Rank(string, string) int { return f.rank }

func (f *fakeReplicas) Serve([]string) {}

func (f *fakeReplicas) SeemsDead(podName, _ string) bool {
	return f.dead[podName] || slices.Contains(f.seemDead, podName)
}

func (f *fakeReplicas) IsDead(_ context.Context, podName, _ string) (bool, error) {
	if podName == "unreadable" {
		return false, errNoAnswer
	}
	return f.dead[podName], nil
}

var errNoAnswer = errors.New("no answer")

// flakyAPI counts the requests and loses answers, or requests.
type flakyAPI struct {
	API

	requests atomic.Int64
	// unanswered requests are done without anybody hearing of it; refused ones are not done.
	unanswered, refused bool
	// terminating: nothing can be created, because the namespace is being deleted.
	terminating bool
	// between is called, if it is set, between a request and its answer.
	between func()
}

func (f *flakyAPI) do(request func() error) error {
	f.requests.Add(1)
	if f.refused {
		return errNoAnswer
	}
	err := request()
	if f.between != nil {
		f.between()
	}
	if f.unanswered {
		return errNoAnswer
	}
	return err
}

func (f *flakyAPI) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption,
) error {
	return f.do(func() error { return f.API.Get(ctx, key, object, opts...) })
}

func (f *flakyAPI) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	if f.terminating {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "syncobjects"}, object.GetName(), nil)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return err
	}
	return f.do(func() error { return f.API.Create(ctx, object, opts...) })
}

func (f *flakyAPI) Patch(
	ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	return f.do(func() error { return f.API.Patch(ctx, object, patch, opts...) })
}

// newKey is the lock of plugin "one" on an item "item" in a namespace of its own.
func newKey() Key {
	return Key{
		Plugin: "one", Item: types.NamespacedName{Namespace: "lock-" + uuid.NewString(), Name: "item"},
		UID: types.UID(uuid.NewString()),
	}
}

// readLock reads a SyncObject; nil if there is none.
func readLock(t *testing.T, key Key) *v1alpha1.SyncObject {
	t.Helper()
	object := &v1alpha1.SyncObject{}
	err := admin.Get(t.Context(), objectName("", key), object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// writeLock changes a SyncObject in the name of somebody else.
func writeLock(t *testing.T, key Key, change func(*v1alpha1.SyncObject)) {
	t.Helper()
	object := readLock(t, key)
	change(object)
	if err := admin.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// newLock creates a SyncObject as another implementation does.
func newLock(t *testing.T, key Key, podName string, change ...func(*v1alpha1.SyncObject)) {
	t.Helper()
	name := objectName("", key)
	object := &v1alpha1.SyncObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Spec: v1alpha1.SyncObjectSpec{
			PodName: podName, Kind: kindDeployItem, Name: key.Item.Name, Prefix: key.Plugin, LastUpdateTime: v1alpha1.Now(),
		},
	}
	for _, c := range change {
		c(object)
	}
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func deleteLock(t *testing.T, key Key) *v1alpha1.SyncObject {
	t.Helper()
	object := readLock(t, key)
	if err := admin.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// expectHolder checks who holds a lock.
func expectHolder(t *testing.T, reason string, key Key, want string) {
	t.Helper()
	object := readLock(t, key)
	if object == nil {
		t.Errorf("%s: there is no lock", reason)
		return
	}
	if object.Spec.PodName != want {
		t.Errorf("%s: expected the holder %q, but found %q", reason, want, object.Spec.PodName)
	}
}
