package httphook

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
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
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	admin := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.DeployerRegistration{}).Build()
	w := &world{t: t, admin: admin, events: events.NewFakeRecorder(100),
		served: []v1alpha1.DeployItemType{itemType, otherType}}
	w.Registrations = newRegistrations(RegistrationOptions{
		ClusterDomain: "cluster.test", Elected: func() bool { return !w.notElected }, Metrics: NewMetrics(), Version: "test",
		Deployers: func(t v1alpha1.DeployItemType) (plugin, version string, replicas int, ok bool) {
			return "one", "v1.2.3", 2, slices.Contains(w.served, t)
		},
		Changed: func(types []v1alpha1.DeployItemType) { w.changed = append(w.changed, types...) },
		Log:     slog.New(slog.NewTextHandler(&w.log, nil)),
	}, admin, admin, w.events)
	w.know(nil)
	return w
}

// register creates a registration. It is older the fewer there are.
func (w *world) register(
	name string, hook *v1alpha1.Hook, types ...v1alpha1.DeployItemType,
) *v1alpha1.DeployerRegistration {
	w.t.Helper()
	list := &v1alpha1.DeployerRegistrationList{}
	if err := w.admin.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	created := metav1.NewTime(time.Unix(1_700_000_000, 0).Add(time.Duration(len(list.Items)) * time.Second))
	registration := &v1alpha1.DeployerRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3, CreationTimestamp: created},
		Spec:       v1alpha1.DeployerRegistrationSpec{Types: types, Hook: hook},
	}
	w.create(registration)
	return registration
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.admin.Create(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
}

// update makes an object in the cluster like this one, and creates it if it is not there.
func (w *world) update(object client.Object) {
	w.t.Helper()
	there, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		w.t.Fatalf("%T is no object", object)
	}
	if err := w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(object), there); err != nil {
		w.create(object)
		return
	}
	object.SetResourceVersion(there.GetResourceVersion())
	if err := w.admin.Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// reconcile reconciles a registration, and returns its status and the error.
func (w *world) reconcile(name string) (v1alpha1.DeployerRegistrationStatus, error) {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	registration := &v1alpha1.DeployerRegistration{}
	if getErr := w.admin.Get(w.t.Context(), client.ObjectKey{Name: name},
		registration); client.IgnoreNotFound(getErr) != nil {
		w.t.Fatal(getErr)
	} else if getErr == nil && err == nil && result.RequeueAfter != refreshInterval {
		w.t.Errorf("what nobody watches is looked at after %s", result.RequeueAfter)
	}
	return registration.Status, err
}

// ready reconciles a registration that must be ready, and returns its hook.
func (w *world) ready(name string) *Hook {
	w.t.Helper()
	status, err := w.reconcile(name)
	if c := conditionOf(&status, conditionReady); err != nil || c == nil || c.Status != v1alpha1.ConditionTrue {
		w.t.Fatalf("%s is not ready: %+v (%v)", name, status, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.entries[name] == nil {
		return nil
	}
	return w.entries[name].hook
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

func TestRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("plain", nil, itemType)
	if hook := w.ready("plain"); hook != nil || w.hook(itemType) != nil {
		t.Error("a registration without a hook has one")
	}
	registration := w.register("full", uriHook("https://user-like.test:8443/v1?key=hidden"), otherType, itemType)
	hook := w.ready("full")
	if w.hook(itemType) != hook || w.hook(otherType) != hook || !hook.Has(v1alpha1.HookFinalize) ||
		hook.Registration() != "full" {
		t.Errorf("not the hook of the registration: %+v", hook)
	}
	if want := []v1alpha1.DeployItemType{itemType, otherType}; !slices.Equal(w.changed, want) {
		t.Errorf("expected that %v have changed, but found %v", want, w.changed)
	}
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(registration), registration); err != nil {
		t.Fatal(err)
	}
	status := registration.Status
	want := v1alpha1.DeployerRegistrationStatus{
		ObservedGeneration: 3, Hook: &v1alpha1.HookStatus{URL: "https://user-like.test:8443/v1"},
		Conditions: status.Conditions,
		Deployers: []v1alpha1.RegisteredDeployer{
			{Type: itemType, Plugin: "one", Version: "v1.2.3", Replicas: 2},
			{Type: otherType, Plugin: "one", Version: "v1.2.3", Replicas: 2},
		},
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	for _, conditionType := range []v1alpha1.ConditionType{conditionReady, conditionHookResolved,
		conditionDeployersFound} {
		c := conditionOf(&status, conditionType)
		if c == nil || c.Status != v1alpha1.ConditionTrue || c.LastTransitionTime.IsZero() || c.LastUpdateTime.IsZero() ||
			c.Message == "" {
			t.Errorf("condition %s is %+v", conditionType, c)
		}
	}

	registration.Spec.Types = []v1alpha1.DeployItemType{itemType}
	w.update(registration)
	if w.ready("full") != hook || w.hook(otherType) != nil {
		t.Error("a hook that has not changed is a new one, or has the type still")
	}
	registration.Spec.Hook = nil
	w.update(registration)
	w.ready("full")
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(registration), registration); err != nil {
		t.Fatal(err)
	}
	if w.hook(itemType) != nil || registration.Status.Hook != nil ||
		conditionOf(&registration.Status, conditionHookResolved) != nil {
		t.Errorf("a registration without a hook speaks of one: %+v", registration.Status)
	}
}

// Before the registrations are known, no type can be said to have no hook.
func TestUnknownRegistrations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.know(errors.New("not yet"))
	hook, err := w.For(itemType)
	problem, ok := err.(*NotReadyError) //nolint:errorlint // the contract is this type, unwrapped
	if hook != nil || !ok || !problem.Concerns(v1alpha1.HookFinalize) ||
		err.Error() != "HTTP hooks are not ready: not yet" {
		t.Errorf("a hook may be registered, but For answers %v, %v", hook, err)
	}
}

// Two registrations for one type: the older one is in force, and the other one says so.
func TestConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newService("there"))
	older := w.register("b-older", uriHook("http://older.test"), itemType)
	w.register("a-younger", uriHook("http://younger.test"), itemType, otherType)
	for range 2 { // whatever is reconciled first
		_, _ = w.reconcile("a-younger")
		_, _ = w.reconcile("b-older")
	}
	if w.hook(otherType).Registration() != "a-younger" || w.hook(itemType).Registration() != "b-older" {
		t.Errorf("the hooks are %s and %s", w.hook(otherType).URL(), w.hook(itemType).URL())
	}
	status, err := w.reconcile("a-younger")
	ready, resolved := conditionOf(&status, conditionReady), conditionOf(&status, conditionHookResolved)
	const text = `spec.types: the hook of the older DeployerRegistration "b-older" is in force for "test.pergola.dev/one"`
	if err != nil || ready.Reason != reasonTypeTaken || !strings.Contains(ready.Message, text) ||
		resolved.Status != v1alpha1.ConditionTrue {
		t.Errorf("found %+v (%v)", status.Conditions, err)
	}
	w.ready("b-older")

	// The owner of a type is in force although its hook cannot be called: there is no falling back to another one.
	older.Spec.Hook = refHook("v1", "Service", "gone")
	w.update(older)
	_, _ = w.reconcile("b-older")
	if hook, err := w.For(itemType); err == nil {
		t.Errorf("the type has the hook %s", hook.URL())
	}
	if err := w.admin.Delete(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reconcile("b-older"); err != nil {
		t.Fatal(err)
	}
	w.ready("a-younger")
	if got := w.hook(itemType).Registration(); got != "a-younger" {
		t.Errorf("the type has the hook of %s", got)
	}
}

func broker(name string, status any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "test.pergola.dev/v1", "kind": "Broker",
		"status": status}}
	object.SetNamespace(hooksNamespace)
	object.SetName(name)
	return object
}

func at(url any) map[string]any { return map[string]any{"address": map[string]any{"url": url}} }

// What is wrong with a hook is in its conditions and in an event, which name the field, and its types have an error
// until it is mended.
func TestNotReady(t *testing.T) {
	t.Parallel()
	const address = "https://hook.test/v1"
	_, ca := secure(t, answering(http.StatusNoContent, ""), nil)
	for name, tc := range map[string]struct {
		reason string
		hook   *v1alpha1.Hook
		given  []client.Object
		why    string
		texts  []string
		mend   []client.Object // created, or updated if they are there
		url    string
	}{
		"Timeout": {
			reason: "longer than anybody waits",
			hook:   &v1alpha1.Hook{Address: v1alpha1.HookAddress{URI: address}, Timeout: "PT1H"}, why: reasonInvalid,
			texts: []string{"spec.hook.timeout: "},
		},
		"Service": {
			reason: "a Service that is not there", hook: refHook("v1", "Service", "late"), why: reasonAddressNotResolved,
			texts: []string{`spec.hook.address.ref: the Service "late" in namespace "hooks" cannot be read: `, "not found"},
			mend:  []client.Object{newService("late")}, url: "http://late.hooks.svc.cluster.test",
		},
		"Unencrypted": {
			reason: "credentials are not sent to an address of another scheme",
			hook:   withAuth(refHook("test.pergola.dev/v1", "Broker", "open"), "open"),
			given: []client.Object{broker("open", at("http://open.test")),
				newSecret("open", map[string]string{"token": "s3cr3t"})},
			why: reasonAddressNotResolved, texts: []string{"spec.hook.address: ", "scheme https", `"http://open.test"`},
			mend: []client.Object{broker("open", at("https://open.test"))}, url: "https://open.test",
		},
		"NoToken": {
			reason: "a secret that is not there", hook: withAuth(uriHook(address), "late"), why: reasonSecretNotFound,
			texts: []string{`spec.hook.auth.secretRef: there is no secret "late" in namespace "hooks"; create it`},
			mend:  []client.Object{newSecret("late", map[string]string{"username": "u", "password": "p"})}, url: address,
		},
		"WrongKeys": {
			reason: "a name that is mistyped must not make the authorities of the system count",
			hook:   withTLS(uriHook(address), "odd"), why: reasonSecretInvalid,
			given: []client.Object{newSecret("odd", map[string]string{"ca.pem": "s3cr3t"})},
			texts: []string{"spec.hook.tls.secretRef: ", `"odd"`, "ca.crt"},
			mend:  []client.Object{newSecret("odd", map[string]string{"ca.crt": string(ca)})}, url: address,
		},
		"Everything": {
			reason: "all at once", hook: withAuth(withTLS(refHook("test.pergola.dev/v1", "Broker", "all"), "all"), "all"),
			why:   reasonAddressNotResolved,
			texts: []string{"spec.hook.address.ref: ", "spec.hook.tls.secretRef: ", "spec.hook.auth.secretRef: "},
			mend: []client.Object{broker("all", at("https://all.test")),
				newSecret("all", map[string]string{"ca.crt": string(ca), "token": "t"})},
			url: "https://all.test",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.given...)
			w.register("hook", tc.hook, itemType)
			status, err := w.reconcile("hook")
			_, problem := w.For(itemType)
			resolved, ready := conditionOf(&status, conditionHookResolved), conditionOf(&status, conditionReady)
			if err == nil || problem == nil || resolved.Reason != tc.why || ready.Reason != tc.why ||
				ready.Status != v1alpha1.ConditionFalse || status.Hook != nil {
				t.Fatalf("%s: expected the reason %s, but found %+v (%v, %v)", tc.reason, tc.why, status, problem, err)
			}
			event := w.event()
			for _, text := range tc.texts {
				for _, place := range []string{resolved.Message, ready.Message, problem.Error(), event} {
					if !strings.Contains(place, text) {
						t.Errorf("%s: expected %s in %q", tc.reason, text, place)
					}
				}
			}
			if strings.Contains(problem.Error()+w.log.String(), "s3cr3t") {
				t.Errorf("%s: a secret is told: %v", tc.reason, problem)
			}
			for _, object := range tc.mend {
				w.update(object)
			}
			if tc.mend != nil && w.ready("hook").URL() != tc.url {
				t.Errorf("%s: expected the address %s, but found %s", tc.reason, tc.url, w.hook(itemType).URL())
			}
		})
	}
}

// A hook that cannot be called stands in the way of the phases alone in which it would be called.
func TestNotReadyInAPhase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := refHook("v1", "Service", "no-such-service")
	hook.Capabilities = []v1alpha1.HookCapability{v1alpha1.HookPreReconcile}
	w.register("one-phase", hook, itemType)
	_, _ = w.reconcile("one-phase")
	_, err := w.For(itemType)
	var problem *NotReadyError
	if !errors.As(err, &problem) || !problem.Concerns(v1alpha1.HookPreReconcile) ||
		problem.Concerns(v1alpha1.HookFinalize) {
		t.Errorf("it concerns other phases than those of its hook: %+v", problem)
	}
}

func TestDeployers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.served = []v1alpha1.DeployItemType{otherType}
	w.register("served", uriHook("http://hook.test"), itemType, otherType)
	status, err := w.reconcile("served")
	ready, found := conditionOf(&status, conditionReady), conditionOf(&status, conditionDeployersFound)
	if err != nil || ready.Reason != reasonNoDeployer || found.Reason != reasonNoDeployer || len(status.Deployers) != 1 ||
		!strings.Contains(ready.Message, string(itemType)) || strings.Contains(ready.Message, string(otherType)) {
		t.Errorf("expected the type that nobody serves, but found %+v (%v)", status, err)
	}
	// Whoever comes to serve the type needs the hook.
	if w.hook(itemType) == nil || !strings.Contains(w.event(), reasonNoDeployer) {
		t.Error("there is no hook, or no event")
	}
	w.served = []v1alpha1.DeployItemType{itemType, otherType}
	w.ready("served")
}

// The elected replica writes what has changed and nothing else, and leaves what is of others.
func TestStatusWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	registration := w.register("quiet", uriHook("http://hook.test"), itemType)
	read := func() {
		t.Helper()
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(registration), registration); err != nil {
			t.Fatal(err)
		}
	}
	w.notElected = true
	if status, err := w.reconcile("quiet"); err != nil || status.ObservedGeneration != 0 || w.hook(itemType) == nil {
		t.Errorf("a replica that is not elected has written %+v, or has no hook (%v)", status, err)
	}
	w.notElected = false
	w.ready("quiet")
	read()
	audited := v1alpha1.Condition{Type: "Audited", Status: v1alpha1.ConditionTrue, LastTransitionTime: v1alpha1.Now(),
		LastUpdateTime: v1alpha1.Now()}
	registration.Status.Conditions = append(registration.Status.Conditions, audited)
	registration.Status.Conditions[0].LastTransitionTime = v1alpha1.NewTime(time.Unix(1_600_000_000, 0))
	if err := w.admin.Status().Update(t.Context(), registration); err != nil {
		t.Fatal(err)
	}
	version := registration.ResourceVersion
	w.ready("quiet")
	if read(); registration.ResourceVersion != version {
		t.Error("there is a write although nothing has changed")
	}
	registration.Spec.Hook.Address.URI = "http://next.test"
	w.update(registration)
	w.ready("quiet")
	read()
	ready := conditionOf(&registration.Status, conditionReady)
	if registration.Status.Hook.URL != "http://next.test" || conditionOf(&registration.Status, "Audited") == nil ||
		ready.LastTransitionTime.Unix() != 1_600_000_000 {
		t.Errorf("expected the new address, the condition of somebody else, and when it became ready, but found %+v",
			registration.Status)
	}
	if event := w.event(); event != "" {
		t.Errorf("there is the event %s of what is well", event)
	}
}

// A hook that is ready is called with what its secrets have at the moment, over connections that are kept as long as
// nothing changes.
func TestHookAtWork(t *testing.T) {
	t.Parallel()
	var login string
	server, ca := secure(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		login = r.Header.Get("Authorization")
	}), nil)
	secret := newSecret("hook", map[string]string{"ca.crt": string(ca), "token": "first\n"})
	w := newWorld(t, secret)
	registration := w.register("at-work", withTLS(withAuth(uriHook(server.URL), "hook"), "hook"), itemType)
	first := w.ready("at-work")
	if err := first.Finalize(t.Context(), "one", item()); err != nil || login != "Bearer first" {
		t.Errorf("the hook was told %q (%v)", login, err)
	}
	w.changed = nil
	if w.ready("at-work") != first || w.changed != nil {
		t.Error("there is a new hook although nothing has changed")
	}
	secret.Data["token"] = []byte("second")
	w.update(secret)
	if err := w.ready("at-work").Finalize(t.Context(), "one", item()); err != nil || login != "Bearer second" {
		t.Errorf("the hook was told %q (%v)", login, err)
	}
	if !slices.Equal(w.changed, []v1alpha1.DeployItemType{itemType}) || strings.Contains(w.log.String(), "second") {
		t.Errorf("%v have changed, and the log is %s", w.changed, w.log.String())
	}
	if text := gather(t, w.options.Metrics); !strings.Contains(text, `registration="at-work"`) {
		t.Errorf("the requests are not counted:\n%s", text)
	}
	if err := w.admin.Delete(t.Context(), registration); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reconcile("at-work"); err != nil || w.hook(itemType) != nil ||
		strings.Contains(gather(t, w.options.Metrics), "at-work") {
		t.Errorf("there is something of a registration that is gone (%v)", err)
	}
}
