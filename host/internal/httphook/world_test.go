package httphook

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	itemType  v1alpha1.DeployItemType = "test.pergola.dev/one"
	otherType v1alpha1.DeployItemType = "test.pergola.dev/two"
)

// world has Registrations that are known, and a cluster with an administrator.
type world struct {
	*Registrations
	t       *testing.T
	admin   client.Client
	events  *events.FakeRecorder
	log     bytes.Buffer
	changed []v1alpha1.DeployItemType
	// served has the types that the plugin "one" serves.
	served     []v1alpha1.DeployItemType
	notElected bool
	registered int64
	// list is asked before registrations are listed; nil is no error.
	list func() error
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, events: events.NewFakeRecorder(100), list: func() error { return nil },
		served: []v1alpha1.DeployItemType{itemType, otherType}}
	admin := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.DeployerRegistration{}).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, o ...client.ListOption) error {
			return cmp.Or(w.list(), c.List(ctx, into, o...))
		},
	}).Build()
	w.admin = admin
	w.Registrations = newRegistrations(RegistrationOptions{
		ClusterDomain: "cluster.test", Elected: func() bool { return !w.notElected }, Metrics: NewMetrics(), Version: "test",
		Deployers: func(t v1alpha1.DeployItemType) (plugin, version string, replicas int, ok bool) {
			return "one", "v1.2.3", 2, slices.Contains(w.served, t)
		},
		Changed: func(types []v1alpha1.DeployItemType, _ bool) { w.changed = append(w.changed, types...) },
		Log:     slog.New(slog.NewTextHandler(&w.log, nil)),
	}, admin, admin, w.events)
	return w
}

// register creates a registration, which is younger than those before it.
func (w *world) register(name string, hook *v1alpha1.Hook, types ...v1alpha1.DeployItemType) {
	w.t.Helper()
	w.registered++
	w.replace(&v1alpha1.DeployerRegistration{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Generation: 3, CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000+w.registered, 0)),
		},
		Spec: v1alpha1.DeployerRegistrationSpec{Types: types, Hook: hook},
	})
}

// replace creates objects, in the place of those of their names.
func (w *world) replace(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.admin.Delete(w.t.Context(), object); client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
		object.SetResourceVersion("")
		if err := w.admin.Create(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
}

// change changes the spec of a registration.
func (w *world) change(name string, change func(*v1alpha1.DeployerRegistrationSpec)) {
	w.t.Helper()
	registration := w.read(name)
	change(&registration.Spec)
	if err := w.admin.Update(w.t.Context(), registration); err != nil {
		w.t.Fatal(err)
	}
}

// read reads a registration; one that is not there is empty.
func (w *world) read(name string) *v1alpha1.DeployerRegistration {
	w.t.Helper()
	registration := &v1alpha1.DeployerRegistration{}
	if err := w.admin.Get(w.t.Context(), client.ObjectKey{Name: name}, registration); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return registration
}

// reconcile reconciles the registrations, and returns the status of one of them and the error.
func (w *world) reconcile(name string) (v1alpha1.DeployerRegistrationStatus, error) {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), reconcile.Request{})
	if err == nil && result.RequeueAfter != refreshInterval {
		w.t.Errorf("what nobody watches is looked at after %s", result.RequeueAfter)
	}
	return w.read(name).Status, err
}

// ready reconciles the registrations, one of which must be ready, and returns its hook.
func (w *world) ready(name string) *Hook {
	w.t.Helper()
	status, err := w.reconcile(name)
	if why := whyNot(status, conditionReady); err != nil || why != "" {
		w.t.Fatalf("%s is not ready: %s (%v)", name, why, err)
	}
	if e := w.state.Load().entries[name]; e != nil {
		return e.hook
	}
	return nil
}

// whyNot is the reason and the message of a condition that is not True; empty if it is.
func whyNot(status v1alpha1.DeployerRegistrationStatus, conditionType v1alpha1.ConditionType) string {
	c := conditionOf(&status, conditionType)
	switch {
	case c == nil:
		return "it is missing"
	case c.Status == v1alpha1.ConditionTrue:
		return ""
	default:
		return c.Reason + ": " + c.Message
	}
}

// hook is the hook of a type, which must not be an error.
func (w *world) hook(t v1alpha1.DeployItemType) *Hook {
	w.t.Helper()
	hook, err := w.For(t)
	if err != nil {
		w.t.Fatal(err)
	}
	return hook
}

// event is the oldest event that nobody has looked at; empty if there is none.
func (w *world) event() string {
	select {
	case event := <-w.events.Events:
		return event
	default:
		return ""
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
	hook.Address.Ref = referenceTo(apiVersion, kind, name)
	return hook
}

func newSecret(name string, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: hooksNamespace, Name: name},
		Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

func newService(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: hooksNamespace, Name: name}}
}

func withAuth(hook *v1alpha1.Hook, secret string) *v1alpha1.Hook {
	hook.Auth = &v1alpha1.HookAuth{SecretRef: v1alpha1.NamespacedSecretReference{Namespace: hooksNamespace, Name: secret}}
	return hook
}

func withTLS(hook *v1alpha1.Hook, secret string) *v1alpha1.Hook {
	hook.TLS = &v1alpha1.HookTLS{SecretRef: &v1alpha1.NamespacedSecretReference{Namespace: hooksNamespace, Name: secret}}
	return hook
}

func broker(name string, status any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "test.pergola.dev/v1", "kind": "Broker",
		"status": status}}
	object.SetNamespace(hooksNamespace)
	object.SetName(name)
	return object
}

func at(url any) map[string]any { return map[string]any{"address": map[string]any{"url": url}} }
