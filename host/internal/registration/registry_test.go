package registration

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestRegistration(t *testing.T) {
	w := start(t, options{})
	<-w.Synced()
	w.noHook(itemType)
	register(t, "plain", nil, itemType)
	w.status("plain", ConditionReady, v1alpha1.ConditionTrue, ReasonReady)
	if hook, err := w.For(itemType); hook != nil || err != nil {
		t.Errorf("a registration without a hook has one: %v, %v", hook, err)
	}

	registration := register(t, "full", uriHook("https://user-like.test:8443/v1?key=hidden"), otherType, itemType)
	hook := w.hook(itemType, "https://user-like.test:8443/v1")
	if other := w.hook(otherType, hook.URL()); other != hook {
		t.Error("the types of one registration have different hooks")
	}
	if !hook.Has(v1alpha1.HookFinalize) || hook.Registration() != "full" {
		t.Errorf("not the hook of the registration: %v", hook)
	}
	if got := w.told(); !slices.Equal(got, []v1alpha1.DeployItemType{itemType, otherType}) {
		t.Errorf("expected that both types have changed, but found %v", got)
	}
	status := w.status("full", ConditionReady, v1alpha1.ConditionTrue, ReasonReady)
	want := v1alpha1.DeployerRegistrationStatus{
		ObservedGeneration: registration.Generation, Hook: &v1alpha1.HookStatus{URL: "https://user-like.test:8443/v1"},
		Deployers: []v1alpha1.RegisteredDeployer{
			{Type: itemType, Plugin: "one", Version: "v1.2.3", Replicas: 2}, {Type: otherType, Plugin: "one", Version: "v1.2.3", Replicas: 2},
		},
		Conditions: status.Conditions,
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	for _, conditionType := range []v1alpha1.ConditionType{ConditionReady, ConditionHookResolved, ConditionDeployersFound} {
		if c := condition(status, conditionType); c.Status != v1alpha1.ConditionTrue || c.LastTransitionTime.IsZero() || c.LastUpdateTime.IsZero() || c.Message == "" {
			t.Errorf("condition %s is %+v", conditionType, c)
		}
	}
	update(t, registration, func() { registration.Spec.Types = []v1alpha1.DeployItemType{itemType} })
	w.noHook(otherType)
	if w.hook(itemType, hook.URL()) != hook {
		t.Error("a hook that has not changed is a new one")
	}
	update(t, registration, func() { registration.Spec.Hook = nil })
	w.noHook(itemType)
	status = w.status("full", ConditionReady, v1alpha1.ConditionTrue, ReasonReady)
	if status.Hook != nil || condition(status, ConditionHookResolved).Type != "" {
		t.Errorf("the status of a registration without a hook speaks of one: %+v", status)
	}
	update(t, registration, func() { registration.Spec.Hook = uriHook("http://next.test") })
	w.hook(itemType, "http://next.test")
	remove(t, registration)
	w.noHook(itemType)
}

func TestUnknownRegistrations(t *testing.T) {
	r := New(Options{})
	hook, err := r.For(itemType)
	problem, ok := err.(*NotReadyError) //nolint:errorlint // the contract is this type, unwrapped
	if hook != nil || !ok || problem.Reason != ReasonStarting {
		t.Errorf("a hook may be registered, but For answers %v, %v", hook, err)
	}
	if r.Ready() == nil || problem.Message != r.Ready().Error() {
		t.Errorf("expected the same reason from Ready, but found %v", r.Ready())
	}
	select {
	case <-r.Synced():
		t.Error("nothing is known yet")
	default:
	}
}

// Two registrations for one type: the older one is in force, and the other one says so.
func TestConflict(t *testing.T) {
	w := start(t, options{})
	older := register(t, "b-older", uriHook("http://older.test"), itemType)
	waitForNextSecond(t, older)
	register(t, "a-younger", uriHook("http://younger.test"), itemType, otherType)
	w.hook(otherType, "http://younger.test")
	w.hook(itemType, "http://older.test")
	status := w.status("a-younger", ConditionReady, v1alpha1.ConditionFalse, ReasonTypeTaken)
	for _, text := range []string{"spec.types", `"` + string(itemType) + `"`, `"b-older"`} {
		if message := condition(status, ConditionReady).Message; !strings.Contains(message, text) {
			t.Errorf("expected %s in %q", text, message)
		}
	}
	if c := condition(status, ConditionHookResolved); c.Status != v1alpha1.ConditionTrue {
		t.Errorf("nothing is wrong with the address: %+v", c)
	}
	w.waitForEvent("a-younger", ReasonTypeTaken, "b-older")
	w.status("b-older", ConditionReady, v1alpha1.ConditionTrue, ReasonReady)

	// The owner of a type is in force although its hook cannot be called: there is no falling back to another one.
	update(t, older, func() { older.Spec.Hook = refHook("v1", "Service", "gone") })
	w.notReady(itemType, ReasonAddressNotResolved)
	remove(t, older)
	w.hook(itemType, "http://younger.test")
	w.status("a-younger", ConditionReady, v1alpha1.ConditionTrue, ReasonReady)
}

// waitForNextSecond waits until what is created is younger than an object.
func waitForNextSecond(t *testing.T, object client.Object) {
	t.Helper()
	for !time.Now().Truncate(time.Second).After(object.GetCreationTimestamp().Time) {
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestDeployers(t *testing.T) {
	w := start(t, options{noDeployers: true})
	register(t, "served", uriHook("http://hook.test"), itemType, otherType)
	status := w.status("served", ConditionDeployersFound, v1alpha1.ConditionFalse, ReasonNoDeployer)
	if c := condition(status, ConditionReady); c.Status != v1alpha1.ConditionFalse || c.Reason != ReasonNoDeployer ||
		!strings.Contains(c.Message, string(itemType)) || !strings.Contains(c.Message, string(otherType)) {
		t.Errorf("the condition Ready does not name the types that nobody serves: %+v", c)
	}
	w.hook(itemType, "http://hook.test") // whoever comes to serve the type needs it
	w.waitForEvent("served", ReasonNoDeployer, string(itemType))

	w.serve(otherType)
	w.LookAgain()
	w.waitAMoment("another message", 10*time.Second, func() bool {
		r := &v1alpha1.DeployerRegistration{}
		read(t, "served", r)
		message := condition(r.Status, ConditionReady).Message
		return strings.Contains(message, string(itemType)) && !strings.Contains(message, string(otherType)) && len(r.Status.Deployers) == 1
	})
	w.serve(itemType, otherType) // and nobody says so
	w.status("served", ConditionReady, v1alpha1.ConditionTrue, ReasonReady)
}

// Nothing is written when nothing has changed, and what is written comes at the pace of the looks.
func TestWrites(t *testing.T) {
	w := start(t, options{})
	registration := register(t, "quiet", uriHook("http://hook.test"), itemType)
	w.status("quiet", ConditionReady, v1alpha1.ConditionTrue, ReasonReady)
	read(t, "quiet", registration)
	writes, version := w.writes.Load(), registration.ResourceVersion
	transition := condition(registration.Status, ConditionReady).LastTransitionTime
	looks := w.clock.Now().Add(10 * refreshInterval)
	w.waitUntil("ten periods have passed", func() bool { return w.clock.Now().After(looks) })
	read(t, "quiet", registration)
	if w.writes.Load() != writes || registration.ResourceVersion != version {
		t.Errorf("%d writes although nothing has changed", w.writes.Load()-writes)
	}

	update(t, registration, func() { registration.Spec.Hook.Address.URI = "http://next.test" })
	w.hook(itemType, "http://next.test")
	w.waitUntil("the status has the new address", func() bool {
		read(t, "quiet", registration)
		return registration.Status.Hook != nil && registration.Status.Hook.URL == "http://next.test"
	})
	if got := condition(registration.Status, ConditionReady).LastTransitionTime; !got.Equal(&transition) {
		t.Errorf("Ready has been true all the time since %s, but changed at %s", transition, got)
	}
	if got := w.writes.Load() - writes; got != 1 {
		t.Errorf("expected one write, but found %d", got)
	}
}

// What somebody else has written into the status in the meantime stays, and what they have made of ours does not.
func TestStatusOfOthers(t *testing.T) {
	w := start(t, options{})
	registration := register(t, "shared", uriHook("http://hook.test"), itemType)
	w.status("shared", ConditionReady, v1alpha1.ConditionTrue, ReasonReady)
	read(t, "shared", registration)
	before := registration.DeepCopy()
	registration.Status.Conditions = append(registration.Status.Conditions, v1alpha1.Condition{
		Type: "Audited", Status: v1alpha1.ConditionTrue, Reason: "Seen", LastTransitionTime: v1alpha1.Now(), LastUpdateTime: v1alpha1.Now(),
	})
	registration.Status.ObservedGeneration = 77
	registration.Status.Deployers[0].Replicas = 77
	if err := admin.Status().Patch(t.Context(), registration, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	status := w.status("shared", ConditionReady, v1alpha1.ConditionTrue, ReasonReady)
	if status.Deployers[0].Replicas != 2 {
		t.Errorf("the status is wrong: %+v", status)
	}
	if c := condition(status, "Audited"); c.Reason != "Seen" {
		t.Errorf("the condition of somebody else is gone: %+v", status.Conditions)
	}
}

// Of two replicas both have the hooks, and the elected one writes.
func TestElection(t *testing.T) {
	first, second := start(t, options{}), start(t, options{notElected: true})
	registration := register(t, "shared", refHook("v1", "Service", "gone"), itemType)
	first.notReady(itemType, ReasonAddressNotResolved)
	second.notReady(itemType, ReasonAddressNotResolved)
	first.status("shared", ConditionReady, v1alpha1.ConditionFalse, ReasonAddressNotResolved)
	first.waitForEvent("shared", ReasonAddressNotResolved, "gone")
	if second.writes.Load() != 0 || first.writes.Load() == 0 {
		t.Errorf("%d and %d writes", first.writes.Load(), second.writes.Load())
	}

	first.elected.Store(false)
	second.elected.Store(true)
	writes := first.writes.Load()
	update(t, registration, func() { registration.Spec.Hook = uriHook("http://hook.test") })
	first.hook(itemType, "http://hook.test")
	second.hook(itemType, "http://hook.test")
	second.status("shared", ConditionReady, v1alpha1.ConditionTrue, ReasonReady)
	if first.writes.Load() != writes || second.writes.Load() == 0 {
		t.Errorf("%d and %d writes", first.writes.Load()-writes, second.writes.Load())
	}
}

// A replica that comes to be elected writes what the one before has not, and need not wait for it.
func TestElectionIsTold(t *testing.T) {
	w := start(t, options{notElected: true})
	register(t, "late", uriHook("http://hook.test"), itemType)
	w.hook(itemType, "http://hook.test")
	w.elected.Store(true)
	w.LookAgain()
	w.waitAMoment("the status is written", 10*time.Second, func() bool {
		r := &v1alpha1.DeployerRegistration{}
		read(t, "late", r)
		return condition(r.Status, ConditionReady).Status == v1alpha1.ConditionTrue
	})
}

// Without the CustomResourceDefinition there are no registrations; when it comes there are.
func TestCustomResourceDefinitionIsMissing(t *testing.T) {
	installed := registrationDefinition(t)
	again := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: installed.Name}, Spec: installed.Spec}
	remove(t, installed)
	t.Cleanup(func() { // whatever comes of the test
		if err := admin.Create(context.Background(), again.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Error(err)
		}
	})
	w := start(t, options{})
	w.waitUntil("what is registered is known", func() bool { return w.Ready() == nil })
	<-w.Synced()
	w.noHook(itemType)
	if err := admin.Create(t.Context(), again.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	registration := &v1alpha1.DeployerRegistration{ObjectMeta: metav1.ObjectMeta{Name: "late"}}
	registration.Spec = v1alpha1.DeployerRegistrationSpec{Types: []v1alpha1.DeployItemType{itemType}, Hook: uriHook("http://hook.test")}
	w.waitUntil("the kind is served", func() bool {
		err := admin.Create(t.Context(), registration.DeepCopy())
		if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Cleanup(func() { remove(t, registration) })
	w.hook(itemType, "http://hook.test")
	w.status("late", ConditionReady, v1alpha1.ConditionTrue, ReasonReady)
}

// A host that may not list the registrations does not take that for none.
func TestRights(t *testing.T) {
	config := rest.CopyConfig(controlPlane.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "host-without-rights"}
	w := start(t, options{config: config})
	w.waitUntil("Ready says what is missing", func() bool { return w.Ready() != nil && strings.Contains(w.Ready().Error(), "get, list and watch") })
	register(t, "hidden", uriHook("http://hook.test"), itemType)
	problem := w.notReady(itemType, ReasonStarting)
	if !strings.Contains(problem.Error(), "forbidden") {
		t.Errorf("expected the cause, but found %v", problem)
	}
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "host-without-rights"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "host-without-rights"}},
	})
	w.hook(itemType, "http://hook.test")
	if err := w.Ready(); err != nil {
		t.Errorf("the registrations are known, but it says %v", err)
	}
}

// A status that cannot be written is tried again: after a conflict at once, and otherwise in a moment.
func TestFailedWrites(t *testing.T) {
	for name, fail := range map[string]func(name string) error{
		"conflict": func(name string) error { // somebody else is faster
			return admin.Patch(t.Context(), &v1alpha1.DeployerRegistration{ObjectMeta: metav1.ObjectMeta{Name: name}},
				client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"somebody":"else"}}}`)))
		},
		"API server": func(string) error { return apierrors.NewInternalError(errors.New("no write")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, options{intercept: func(w *world, funcs *interceptor.Funcs) {
				write := funcs.SubResourcePatch
				funcs.SubResourcePatch = func(
					ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
				) error {
					if w.writes.Load() == 0 {
						if err := fail(o.GetName()); err != nil {
							w.writes.Add(1)
							return err
						}
					}
					return write(ctx, c, sub, o, p, opts...)
				}
			}})
			register(t, "stubborn", uriHook("http://hook.test"), itemType)
			w.waitAMoment("the status is written", refreshInterval/2, func() bool {
				r := &v1alpha1.DeployerRegistration{}
				read(t, "stubborn", r)
				return condition(r.Status, ConditionReady).Status == v1alpha1.ConditionTrue
			})
			if failed := strings.Contains(w.log.String(), "the status of a DeployerRegistration was not written"); failed != (name == "API server") {
				t.Errorf("a failure is logged: %t", failed)
			}
			if got := w.writes.Load(); got != 2 {
				t.Errorf("expected one write that fails and one that does not, but found %d", got)
			}
		})
	}
}

// What was found out about a registration says nothing about one that has been changed since.
func TestOutdatedFinding(t *testing.T) {
	registration := register(t, "outdated", nil, itemType)
	r := New(Options{Client: admin, Recorder: events.NewFakeRecorder(1)})
	for _, tc := range []struct {
		reason string
		change func(lookedAt *v1alpha1.DeployerRegistration)
		want   int64
	}{
		{"another spec", func(lookedAt *v1alpha1.DeployerRegistration) { lookedAt.Generation-- }, 0},
		{"another one of the same name", func(lookedAt *v1alpha1.DeployerRegistration) { lookedAt.UID = "before" }, 0},
		{"one that is gone", func(lookedAt *v1alpha1.DeployerRegistration) { lookedAt.Name = "gone" }, 0},
		{"the same", func(*v1alpha1.DeployerRegistration) {}, registration.Generation},
	} {
		lookedAt := registration.DeepCopy()
		tc.change(lookedAt)
		if err := r.write(t.Context(), lookedAt, finding{generation: registration.Generation}); err != nil {
			t.Fatal(err)
		}
		read(t, "outdated", registration)
		if got := registration.Status.ObservedGeneration; got != tc.want {
			t.Errorf("%s: the status is about generation %d", tc.reason, got)
		}
	}
}

func TestTexts(t *testing.T) {
	for _, tc := range []struct {
		reason string
		err    *NotReadyError
		want   string
	}{
		{"an error names its registration", &NotReadyError{Registration: "r", Message: "m"}, `the HTTP hook of DeployerRegistration "r" is not ready: m`},
		{"unless nothing is known", &NotReadyError{Reason: ReasonStarting, Message: "m"}, "HTTP hooks are not ready: m"},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("%s: expected %q, but found %q", tc.reason, tc.want, got)
		}
	}
	for _, tc := range []struct{ reason, text, want string }{
		{"it fits", "ééa", "ééa"},
		{"a character stays whole", "ééé", "é…"},
		{"a character is dropped as a whole", "aéé€", "a…"},
	} {
		if got := bounded(tc.text, 5); got != tc.want {
			t.Errorf("%s: expected %q, but found %q", tc.reason, tc.want, got)
		}
	}
}
