package registration

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	itemType  v1alpha1.DeployItemType = "test.pergola.dev/one"
	otherType v1alpha1.DeployItemType = "test.pergola.dev/two"
	// namespace of what the hooks of the tests are made of.
	namespace = "default"
)

// world is a Registry at work in a manager, with a clock that moves only while a test waits.
type world struct {
	*Registry
	t       *testing.T
	clock   *clocktesting.FakeClock
	elected atomic.Bool
	// writes counts the requests that change a status, and reads those for secrets.
	writes, reads atomic.Int64
	metrics       *httphook.Metrics
	log           *record

	mu        sync.Mutex
	deployers map[v1alpha1.DeployItemType]v1alpha1.RegisteredDeployer
	changed   []v1alpha1.DeployItemType
}

// record keeps what is logged.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(line)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// options of a world. The zero value is one of the administrator, with all rights.
type options struct {
	config      *rest.Config
	intercept   func(w *world, funcs *interceptor.Funcs)
	notElected  bool
	noDeployers bool
}

// start starts a Registry and ends it with the test. The types of the tests are served by the plugin "one".
func start(t *testing.T, o options) *world {
	t.Helper()
	if o.config == nil {
		o.config = controlPlane.Config
	}
	w := &world{t: t, log: &record{}, clock: clocktesting.NewFakeClock(time.Now()), metrics: httphook.NewMetrics(), deployers: map[v1alpha1.DeployItemType]v1alpha1.RegisteredDeployer{}}
	w.elected.Store(!o.notElected)
	if !o.noDeployers {
		w.serve(itemType, otherType)
	}
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := manager.New(o.config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.NewWithWatch(o.config, client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		t.Fatal(err)
	}
	funcs := interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			w.writes.Add(1)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Secret); ok {
				w.reads.Add(1)
			}
			return c.Get(ctx, key, o, opts...)
		},
	}
	if o.intercept != nil {
		o.intercept(w, &funcs)
	}
	w.Registry = New(Options{
		Cache: mgr.GetCache(), Client: interceptor.NewClient(live, funcs), Recorder: mgr.GetEventRecorder("pergola"),
		ClusterDomain: "cluster.test", Elected: w.elected.Load, Deployers: w.deployer, Metrics: w.metrics, Version: "test",
		Changed: func(types []v1alpha1.DeployItemType) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changed = append(w.changed, types...)
		},
		Clock: w.clock, Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err := mgr.Add(w.Registry); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// serve has types served by the plugin "one" in two replicas, and no others.
func (w *world) serve(types ...v1alpha1.DeployItemType) {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.deployers)
	for _, t := range types {
		w.deployers[t] = v1alpha1.RegisteredDeployer{Type: t, Plugin: "one", Version: "v1.2.3", Replicas: 2}
	}
}

func (w *world) deployer(t v1alpha1.DeployItemType) (plugin, version string, replicas int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d, ok := w.deployers[t]
	return d.Plugin, d.Version, int(d.Replicas), ok
}

// told returns the types that Changed has told of since the last time.
func (w *world) told() []v1alpha1.DeployItemType {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := w.changed
	w.changed = nil
	return told
}

// waitUntil lets time pass until it comes to something.
func (w *world) waitUntil(what string, condition func() bool) {
	w.t.Helper()
	w.waitAMoment(what, time.Hour, condition)
}

// waitAMoment lets no more than some time pass until it comes to something. The less it may be the slower it passes, so that it is not over
// before the API server has delivered what is waited for.
func (w *world) waitAMoment(what string, most time.Duration, condition func() bool) {
	w.t.Helper()
	const step, patience = 250 * time.Millisecond, 30 * time.Second
	pause := max(5*time.Millisecond, patience/2/(most/step))
	for deadline := time.Now().Add(patience); !condition(); {
		if time.Now().After(deadline) {
			w.t.Fatalf("it never comes to this: %s", what)
		}
		if most >= step {
			w.clock.Step(step)
			most -= step
		}
		time.Sleep(pause)
	}
}

// hook waits for the hook of a type with a URL.
func (w *world) hook(t v1alpha1.DeployItemType, url string) *httphook.Hook {
	w.t.Helper()
	var hook *httphook.Hook
	w.waitUntil("the hook of "+string(t)+" is at "+url, func() bool {
		found, err := w.For(t)
		if err != nil || found == nil || found.URL() != url {
			return false
		}
		hook = found
		return true
	})
	return hook
}

// noHook waits until a type has no hook.
func (w *world) noHook(t v1alpha1.DeployItemType) {
	w.t.Helper()
	w.waitUntil(string(t)+" has no hook", func() bool {
		hook, err := w.For(t)
		return hook == nil && err == nil
	})
}

// notReady waits until a type has a hook that cannot be called for a reason, and returns why.
func (w *world) notReady(t v1alpha1.DeployItemType, reason string) *NotReadyError {
	w.t.Helper()
	var problem *NotReadyError
	w.waitUntil("the hook of "+string(t)+" is not ready, for the reason "+reason, func() bool {
		hook, err := w.For(t)
		if hook != nil || !errors.As(err, &problem) {
			return false
		}
		return problem.Reason == reason
	})
	return problem
}

// status waits until a condition of a registration has a status and a reason, and returns the whole status.
func (w *world) status(name string, conditionType v1alpha1.ConditionType, status v1alpha1.ConditionStatus, reason string) v1alpha1.DeployerRegistrationStatus {
	w.t.Helper()
	registration := &v1alpha1.DeployerRegistration{}
	w.waitUntil(string(conditionType)+" of "+name+" is "+string(status)+", for the reason "+reason, func() bool {
		read(w.t, name, registration)
		c := condition(registration.Status, conditionType)
		return registration.Status.ObservedGeneration == registration.Generation && c.Status == status && c.Reason == reason
	})
	return registration.Status
}

// waitForEvent waits for a warning about a registration whose note has a text.
func (w *world) waitForEvent(name, reason, text string) {
	w.t.Helper()
	w.waitUntil("an event "+reason+" of "+name+" says "+text, func() bool { return len(warnings(w.t, name, reason, text)) > 0 })
}

// warnings are the events about a registration with a reason whose note has a text.
func warnings(t *testing.T, name, reason, text string) []eventsv1.Event {
	t.Helper()
	list := &eventsv1.EventList{}
	if err := admin.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool {
		return e.Regarding.Kind != "DeployerRegistration" || e.Regarding.Name != name || e.Type != corev1.EventTypeWarning ||
			e.Reason != reason || !strings.Contains(e.Note, text)
	})
}

func read(t *testing.T, name string, into *v1alpha1.DeployerRegistration) {
	t.Helper()
	if err := admin.Get(t.Context(), client.ObjectKey{Name: name}, into); err != nil {
		t.Fatal(err)
	}
}

// uriHook is a hook with an address that needs nobody to resolve it.
func uriHook(uri string) *v1alpha1.Hook {
	return &v1alpha1.Hook{
		Version: v1alpha1.HookVersionV1, Address: v1alpha1.HookAddress{URI: uri},
		Capabilities: []v1alpha1.HookCapability{v1alpha1.HookPreReconcile, v1alpha1.HookFinalize},
	}
}

// refHook is a hook whose address is that of an object.
func refHook(apiVersion, kind, name string) *v1alpha1.Hook {
	hook := uriHook("")
	hook.Address.Ref = &v1alpha1.HookReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
	return hook
}

// register creates a registration, which is deleted with the test. The hook may be nil.
func register(t *testing.T, name string, hook *v1alpha1.Hook, types ...v1alpha1.DeployItemType) *v1alpha1.DeployerRegistration {
	t.Helper()
	registration := &v1alpha1.DeployerRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.DeployerRegistrationSpec{Types: types, Hook: hook},
	}
	create(t, registration)
	return registration
}

// create creates an object, which is deleted with the test.
func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, object) })
}

// remove deletes an object, if it is there, and waits until it is gone.
func remove(t *testing.T, object client.Object) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := admin.Delete(ctx, object, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	for admin.Get(ctx, client.ObjectKeyFromObject(object), object) == nil {
		time.Sleep(5 * time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Fatalf("%T %s is not gone", object, object.GetName())
	}
}

// update changes an object in the cluster.
func update(t *testing.T, object client.Object, change func()) {
	t.Helper()
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		t.Fatalf("%T is no object", object)
	}
	change()
	if err := admin.Patch(t.Context(), object, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func newSecret(name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: data}
}

func newService(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// refuseWatches lets no watch come about.
func refuseWatches(_ *world, funcs *interceptor.Funcs) {
	funcs.Watch = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
		return nil, errors.New("no right to watch")
	}
}
