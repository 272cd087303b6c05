package httphook

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("plain", nil, itemType)
	if hook := w.ready("plain"); hook != nil || w.hook(itemType) != nil {
		t.Error("a registration without a hook has one")
	}
	w.register("full", uriHook("https://user-like.test:8443/v1?key=hidden"), otherType, itemType)
	hook := w.ready("full")
	if w.hook(itemType) != hook || w.hook(otherType) != hook || !hook.Has(v1alpha1.HookFinalize) ||
		hook.Registration() != "full" {
		t.Errorf("not the hook of the registration: %+v", hook)
	}
	if want := []v1alpha1.DeployItemType{itemType, otherType}; !slices.Equal(w.changed, want) {
		t.Errorf("expected that %v have changed, but found %v", want, w.changed)
	}
	status := w.read("full").Status
	for _, c := range status.Conditions {
		if c.Status != v1alpha1.ConditionTrue || c.LastTransitionTime.IsZero() || c.LastUpdateTime.IsZero() ||
			c.Message == "" {
			t.Errorf("expected a condition that is true, but found %+v", c)
		}
	}
	want := v1alpha1.DeployerRegistrationStatus{
		ObservedGeneration: 3, Hook: &v1alpha1.HookStatus{URL: "https://user-like.test:8443/v1"},
		Conditions: []v1alpha1.Condition{
			{Type: conditionReady}, {Type: conditionDeployersFound}, {Type: conditionHookResolved},
		},
		Deployers: []v1alpha1.RegisteredDeployer{
			{Type: itemType, Plugin: "one", Version: "v1.2.3", Replicas: 2},
			{Type: otherType, Plugin: "one", Version: "v1.2.3", Replicas: 2},
		},
	}
	byType := cmp.Comparer(func(a, b v1alpha1.Condition) bool { return a.Type == b.Type })
	if diff := cmp.Diff(want, status, byType); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}

	w.change("full", func(s *v1alpha1.DeployerRegistrationSpec) { s.Types = []v1alpha1.DeployItemType{itemType} })
	if w.ready("full") != hook || w.hook(otherType) != nil {
		t.Error("a hook that has not changed is a new one, or has the type still")
	}
	w.change("full", func(s *v1alpha1.DeployerRegistrationSpec) { s.Hook = nil })
	w.ready("full")
	status = w.read("full").Status
	if w.hook(itemType) != nil || status.Hook != nil || conditionOf(&status, conditionHookResolved) != nil {
		t.Errorf("a registration without a hook speaks of one: %+v", status)
	}
}

// Before the registrations are known, no type can be said to have no hook. Without the CustomResourceDefinition there
// are none. When it comes there may be some, and a host that may not list them does not take that for none.
func TestKindComesLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.interval = time.Microsecond
	kind := v1alpha1.GroupVersion.WithKind("DeployerRegistration").GroupKind()
	kinds := v1alpha1.GroupVersion.WithResource("deployerregistrations").GroupResource()
	answers := []error{
		errors.New("connection refused"), &meta.NoKindMatchError{GroupKind: kind}, errors.New("connection refused"),
		apierrors.NewForbidden(kinds, "", nil), nil, nil,
	}
	var before []string // what is known before each list
	w.list = func() error {
		select {
		case <-w.Synced():
			before = append(before, "synced")
		default:
		}
		hook, err := w.For(itemType)
		var problem *NotReadyError
		if hook != nil || (err == nil) != (w.Ready() == nil) ||
			err != nil && (!errors.As(err, &problem) || !problem.Concerns(v1alpha1.HookFinalize)) {
			t.Errorf("a hook may be registered, but For answers %v, %v", hook, err)
		}
		before = append(before, fmt.Sprint(err))
		answer := answers[0]
		answers = answers[1:]
		return answer
	}
	if err := w.awaitKind(t.Context()); err != nil {
		t.Fatal(err)
	}
	const (
		unknown = "HTTP hooks are not ready: the DeployerRegistrations "
		rights  = unknown + "cannot be listed, which the host needs to get, list and watch: "
	)
	forbidden := rights + "deployerregistrations.landscaper.gardener.cloud is forbidden: <nil>"
	want := []string{
		unknown + "are being listed", rights + "connection refused", "synced", "<nil>", "synced", "<nil>",
		"synced", forbidden, "synced", forbidden,
	}
	if diff := cmp.Diff(want, before); diff != "" {
		t.Errorf("what is known (-want +got):\n%s", diff)
	}
}

// Two registrations for one type: the older one is in force, and the other one says so.
// Rule (hooks.md#registration): Of two registrations for one type the older one counts, and the other one says so.
func TestConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("b-older", uriHook("http://older.test"), itemType)
	w.register("a-younger", uriHook("http://younger.test"), itemType, otherType)
	w.ready("b-older")
	status, err := w.reconcile("a-younger")
	const text = reasonTypeTaken + `: spec.types: the hook of the older DeployerRegistration "b-older" is in force for ` +
		`"test.pergola.dev/one"`
	if why := whyNot(status, conditionReady); err != nil || !strings.HasPrefix(why, text) ||
		whyNot(status, conditionHookResolved) != "" {
		t.Errorf("found %+v (%v)", status.Conditions, err)
	}
	if w.hook(otherType).Registration() != "a-younger" || w.hook(itemType).Registration() != "b-older" {
		t.Errorf("the hooks are %s and %s", w.hook(otherType).URL(), w.hook(itemType).URL())
	}

	// The owner of a type is in force although its hook cannot be called: there is no falling back to another one.
	w.change("b-older", func(s *v1alpha1.DeployerRegistrationSpec) { s.Hook = refHook("v1", "Service", "gone") })
	_, _ = w.reconcile("b-older")
	if hook, err := w.For(itemType); err == nil {
		t.Errorf("the type has the hook %s", hook.URL())
	}
	if err := w.admin.Delete(t.Context(), w.read("b-older")); err != nil {
		t.Fatal(err)
	}
	if w.ready("a-younger") != w.hook(itemType) {
		t.Errorf("the type has the hook of %s", w.hook(itemType).Registration())
	}
}

// What is wrong with a hook is in its conditions and in an event, which name the field, and its types have an error
// until it is mended.
func TestNotReady(t *testing.T) {
	t.Parallel()
	const address = "https://hook.test/v1"
	_, ca := secure(t, answering(http.StatusNoContent, ""), nil)
	type objects = []client.Object
	type data = map[string]string
	ofBroker := func(name string) *v1alpha1.Hook { return refHook("test.pergola.dev/v1", "Broker", name) }
	late := &v1alpha1.Hook{Address: v1alpha1.HookAddress{URI: address}, Timeout: "PT1H"}
	for name, tc := range map[string]struct {
		reason string
		hook   *v1alpha1.Hook
		given  objects
		why    string
		texts  []string
		mend   objects // created, or updated if they are there
		url    string
	}{
		"Timeout": {"longer than allowed", late, nil, reasonInvalid, []string{"spec.hook.timeout: "}, nil, ""},
		"Service": {"a Service that is not there", refHook("v1", "Service", "late"), nil, reasonAddressNotResolved,
			[]string{`spec.hook.address.ref: the Service "late" in namespace "hooks" cannot be read: `, "not found"},
			objects{newService("late")}, "http://late.hooks.svc.cluster.test"},
		// Rule (SECURITY.md#network): Credentials for HTTP hooks are sent by HTTPS alone.
		"Unencrypted": {"credentials are not sent to an address of another scheme", withAuth(ofBroker("open"), "open"),
			objects{broker("open", at("http://open.test")), newSecret("open", data{"token": "s3cr3t"})},
			reasonAddressNotResolved, []string{"spec.hook.address: ", "scheme https", `"http://open.test"`},
			objects{broker("open", at("https://open.test"))}, "https://open.test"},
		"NoToken": {"a secret that is not there", withAuth(uriHook(address), "late"), nil, reasonSecretNotFound,
			[]string{`spec.hook.auth.secretRef: there is no secret "late" in namespace "hooks"; create it`},
			objects{newSecret("late", data{"username": "u", "password": "p"})}, address},
		"WrongKeys": {"a name that is mistyped must not make the authorities of the system count",
			withTLS(uriHook(address), "odd"), objects{newSecret("odd", data{"ca.pem": "s3cr3t"})},
			reasonSecretInvalid, []string{"spec.hook.tls.secretRef: ", `"odd"`, "ca.crt"},
			objects{newSecret("odd", data{"ca.crt": string(ca)})}, address},
		"Everything": {"all at once", withAuth(withTLS(ofBroker("all"), "all"), "all"), nil, reasonAddressNotResolved,
			[]string{"spec.hook.address.ref: ", "spec.hook.tls.secretRef: ", "spec.hook.auth.secretRef: "},
			objects{broker("all", at("https://all.test")), newSecret("all", data{"ca.crt": string(ca), "token": "t"})},
			"https://all.test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.given...)
			tc.hook.Capabilities = []v1alpha1.HookCapability{v1alpha1.HookPreReconcile}
			w.register("hook", tc.hook, itemType)
			w.register("whole", uriHook(address), otherType)
			status, err := w.reconcile("hook")
			_, problem := w.For(itemType)
			var notReady *NotReadyError // stands in the way of the phases alone in which the hook would be called
			if err == nil || status.Hook != nil || !errors.As(problem, &notReady) ||
				!notReady.Concerns(v1alpha1.HookPreReconcile) ||
				notReady.Concerns(v1alpha1.HookFinalize) != (tc.why == reasonInvalid) {
				t.Fatalf("%s: found %+v (%v, %v)", tc.reason, status, problem, err)
			}
			if other := w.read("whole").Status; w.hook(otherType) == nil || conditionOf(&other, conditionReady) == nil {
				t.Errorf("%s: it keeps another hook from being ready: %+v", tc.reason, other)
			}
			places := []string{whyNot(status, conditionHookResolved), whyNot(status, conditionReady), problem.Error(), w.event()}
			for i, place := range places {
				for _, text := range tc.texts {
					if !strings.Contains(place, text) || i < 2 && !strings.HasPrefix(place, tc.why) {
						t.Errorf("%s: expected %s and %s in %q", tc.reason, tc.why, text, place)
					}
				}
				if strings.Contains(place+w.log.String(), "s3cr3t") {
					t.Errorf("%s: a secret is told: %s", tc.reason, place)
				}
			}
			w.replace(tc.mend...)
			if tc.mend != nil && w.ready("hook").URL() != tc.url {
				t.Errorf("%s: expected the address %s, but found %s", tc.reason, tc.url, w.hook(itemType).URL())
			}
		})
	}
}

func TestDeployers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.served = []v1alpha1.DeployItemType{otherType}
	w.register("served", uriHook("http://hook.test"), itemType, otherType)
	status, err := w.reconcile("served")
	want := reasonNoDeployer + `: spec.types: no plugin of this host serves "test.pergola.dev/one"`
	if err != nil || whyNot(status, conditionReady) != want || whyNot(status, conditionDeployersFound) != want ||
		len(status.Deployers) != 1 {
		t.Errorf("expected the type that nobody serves, but found %+v (%v)", status, err)
	}
	// Whoever comes to serve the type needs the hook.
	if w.hook(itemType) == nil || !strings.Contains(w.event(), reasonNoDeployer) {
		t.Error("there is no hook, or no event")
	}
	w.served = append(w.served, itemType)
	w.ready("served")
}

// The elected replica writes what has changed and nothing else, and leaves what is of others.
func TestStatusWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("quiet", uriHook("http://hook.test"), itemType)
	w.notElected = true
	if status, err := w.reconcile("quiet"); err != nil || status.ObservedGeneration != 0 || w.hook(itemType) == nil {
		t.Errorf("a replica that is not elected has written %+v, or has no hook (%v)", status, err)
	}
	w.notElected = false
	w.ready("quiet")
	registration := w.read("quiet")
	audited := v1alpha1.Condition{Type: "Audited", Status: v1alpha1.ConditionTrue, LastTransitionTime: v1alpha1.Now(),
		LastUpdateTime: v1alpha1.Now()}
	registration.Status.Conditions = append(registration.Status.Conditions, audited)
	registration.Status.Conditions[0].LastTransitionTime = v1alpha1.NewTime(time.Unix(1_600_000_000, 0))
	if err := w.admin.Status().Update(t.Context(), registration); err != nil {
		t.Fatal(err)
	}
	w.ready("quiet")
	if w.read("quiet").ResourceVersion != registration.ResourceVersion {
		t.Error("there is a write although nothing has changed")
	}
	w.change("quiet", func(s *v1alpha1.DeployerRegistrationSpec) { s.Hook.Address.URI = "http://next.test" })
	w.ready("quiet")
	status := w.read("quiet").Status
	if status.Hook.URL != "http://next.test" || conditionOf(&status, "Audited") == nil ||
		conditionOf(&status, conditionReady).LastTransitionTime.Unix() != 1_600_000_000 {
		t.Errorf("expected the new address, the condition of somebody else, and when it became ready, but found %+v", status)
	}
	if event := w.event(); event != "" {
		t.Errorf("there is the event %s of what is well", event)
	}
}

// A registration whose calls all fail says so until one has an answer; a refusal that the hook means is an answer.
// Rule (hooks.md#registration): The `Ready` condition of a registration says that the calls of its hook fail.
func TestReadySaysThatCallsFail(t *testing.T) {
	t.Parallel()
	answers := http.StatusOK
	body := "no room"
	server := serve(t, func(out http.ResponseWriter, _ *http.Request) {
		out.WriteHeader(answers)
		_, _ = out.Write([]byte(body))
	})
	w := newWorld(t)
	w.register("failing", uriHook(server.String()), itemType)
	w.ready("failing")
	for _, step := range []struct {
		what   string
		calls  []int // the statuses of the answers
		body   string
		reason string
	}{
		{"nobody has called", nil, "", reasonReady},
		{"one call has failed", []int{500}, "no room", string(ReasonFailed)},
		{"nobody has called since", nil, "", string(ReasonFailed)},
		{"one of two calls has failed", []int{500, 200, 500}, "{}", reasonReady},
		{"only the failure is newer", []int{500}, "no room", string(ReasonFailed)},
		{"the hook has refused an item", []int{500}, `{"message": "no", "permanent": true}`, reasonReady},
		{"the answer is none", []int{302}, "", string(ReasonContractViolation)},
		{"it has answered", []int{200}, "{}", reasonReady},
		{"one call has failed again", []int{500}, "no room", string(ReasonFailed)},
		{"another failure is beside it", []int{302, 500, 302}, "", string(ReasonFailed)},
		{"only the other one is left", []int{302}, "", string(ReasonContractViolation)},
	} {
		body = step.body
		for _, answers = range step.calls {
			_ = w.hook(itemType).Finalize(t.Context(), "one", item()) // the result is tested elsewhere
		}
		status, err := w.reconcile("failing")
		if err != nil {
			t.Fatal(err)
		}
		if ready := conditionOf(&status, conditionReady); ready.Reason != step.reason {
			t.Errorf("%s: expected %s, but found %+v", step.what, step.reason, ready)
		}
	}
}

// A hook that is ready is called with what its secrets have at the moment, over connections that are kept as long as
// nothing changes.
func TestHookAtWork(t *testing.T) {
	t.Parallel()
	var login string
	server, ca := secure(t, func(_ http.ResponseWriter, r *http.Request) { login = r.Header.Get("Authorization") }, nil)
	w := newWorld(t)
	w.register("at-work", withTLS(withAuth(uriHook(server.URL), "hook"), "hook"), itemType)
	var hooks []*Hook
	for _, token := range []string{"first", "first", "second"} {
		w.replace(newSecret("hook", map[string]string{"ca.crt": string(ca), "token": token + "\n"}))
		w.changed = nil
		hooks = append(hooks, w.ready("at-work"))
		if err := w.hook(itemType).Finalize(t.Context(), "one", item()); err != nil || login != "Bearer "+token {
			t.Errorf("the hook was told %q (%v)", login, err)
		}
		if last := len(hooks) - 1; last > 0 && (hooks[last] == hooks[last-1]) != (w.changed == nil) {
			t.Errorf("%v have changed with the token %s", w.changed, token)
		}
	}
	if hooks[0] != hooks[1] || hooks[1] == hooks[2] || strings.Contains(w.log.String(), "second") {
		t.Errorf("expected two hooks, but found %v, and the log %s", hooks, w.log.String())
	}
	expectMetrics(t, w.options.Metrics, map[string]float64{"200 finalize at-work": 3, "finalize at-work": 3})
	if err := w.admin.Delete(t.Context(), w.read("at-work")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reconcile("at-work"); err != nil || w.hook(itemType) != nil {
		t.Errorf("there is a hook of a registration that is gone (%v)", err)
	}
	expectMetrics(t, w.options.Metrics, map[string]float64{})
}
