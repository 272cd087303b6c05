package registration

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// hookServer is a hook with TLS that agrees to everything, and keeps what it was told last about who asks.
type hookServer struct {
	*httptest.Server
	authorization atomic.Value
	connections   atomic.Int64
}

func newHookServer(t *testing.T) *hookServer {
	s := &hookServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.authorization.Store(r.Header.Get("Authorization"))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// authority is the one that has issued the certificates of the servers of these tests, in PEM.
func authority(t *testing.T) string {
	t.Helper()
	return newHookServer(t).authority()
}

func (s *hookServer) authority() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func finalize(t *testing.T, w *world, url string) error {
	t.Helper()
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "item"}, Spec: v1alpha1.DeployItemSpec{Type: itemType}}
	return w.hook(itemType, url).Finalize(t.Context(), "one", item)
}

// A hook that is ready is called with what its secrets have at the moment, over connections that are kept as long as nothing changes.
func TestHookAtWork(t *testing.T) {
	server := newHookServer(t)
	create(t, newSecret("hook", map[string]string{"ca.crt": server.authority(), "token": "first\n"}))
	secret := v1alpha1.NamespacedSecretReference{Namespace: namespace, Name: "hook"}
	spec := uriHook(server.URL)
	spec.TLS, spec.Auth = &v1alpha1.HookTLS{SecretRef: &secret}, &v1alpha1.HookAuth{SecretRef: secret}
	w := start(t, options{})
	registration := register(t, "at-work", spec, itemType)
	if err := finalize(t, w, server.URL); err != nil {
		t.Fatal(err)
	}
	if got := server.authorization.Load(); got != "Bearer first" {
		t.Errorf("the hook was told %q", got)
	}
	first := w.hook(itemType, server.URL)

	// What does not make the hook changes nothing.
	update(t, registration, func() { registration.Spec.Types = []v1alpha1.DeployItemType{itemType, otherType} })
	w.hook(otherType, server.URL)
	change(t, "hook", map[string]string{"ca.crt": server.authority(), "token": "first\n", "note": "of no importance"})
	reads := w.reads.Load()
	w.waitUntil("the secrets are read again, twice", func() bool { return w.reads.Load() >= reads+4 })
	if err := finalize(t, w, server.URL); err != nil {
		t.Fatal(err)
	}
	if w.hook(itemType, server.URL) != first || server.connections.Load() != 1 {
		t.Errorf("there is a new hook, with %d connections, although nothing has changed", server.connections.Load())
	}

	w.told()
	change(t, "hook", map[string]string{"ca.crt": server.authority(), "token": "second"})
	w.waitAMoment("the hook has the new token", 10*time.Second, func() bool { return w.hook(itemType, server.URL) != first })
	if err := finalize(t, w, server.URL); err != nil {
		t.Fatal(err)
	}
	if got := server.authorization.Load(); got != "Bearer second" {
		t.Errorf("the hook was told %q", got)
	}
	if got := w.told(); len(got) != 2 {
		t.Errorf("expected that both types have changed, but found %v", got)
	}
	if series(t, w) == 0 {
		t.Error("the requests are not counted")
	}
	expectNoSecret(t, w, "first", "second")

	remove(t, registration)
	w.noHook(itemType)
	if got := series(t, w); got != 0 {
		t.Errorf("there are %d series of a registration that is gone", got)
	}
}

// series is how many series there are of the requests to hooks.
func series(t *testing.T, w *world) int {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(w.metrics); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, family := range families {
		n += len(family.GetMetric())
	}
	return n
}

// expectNoSecret looks for secrets where they do not belong.
func expectNoSecret(t *testing.T, w *world, secrets ...string) {
	t.Helper()
	list := &v1alpha1.DeployerRegistrationList{}
	if err := admin.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	places := []string{w.log.String()}
	for _, registration := range list.Items {
		for _, c := range registration.Status.Conditions {
			places = append(places, c.Message)
		}
	}
	for _, place := range places {
		for _, secret := range secrets {
			if strings.Contains(place, secret) {
				t.Errorf("%q is in %q", secret, place)
			}
		}
	}
}

// The address of a hook follows the object that has it: at once if that can be watched, and otherwise at the next turn.
func TestResolvedAnew(t *testing.T) {
	installBrokers(t)
	for name, tc := range map[string]struct {
		options options
		most    time.Duration
	}{
		"watched":   {options{}, refreshInterval / 2},
		"unwatched": {options{intercept: refuseWatches}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			createBroker(t, "moving", at("http://first.test"))
			w := start(t, tc.options)
			registration := register(t, "moving", refHook(broker, "Broker", "moving"), itemType)
			first := w.hook(itemType, "http://first.test")
			moves := func(url string) {
				t.Helper()
				w.waitAMoment("the hook is at "+url, tc.most, func() bool {
					hook, err := w.For(itemType)
					return err == nil && hook != nil && hook.URL() == url
				})
			}
			say(t, "moving", at("http://second.test/path"))
			moves("http://second.test/path")
			if hook, err := w.For(itemType); hook == first || err != nil {
				t.Errorf("the hook at the new address is the one at the old address; %v", err)
			}
			w.waitUntil("the status has the new address", func() bool {
				read(t, "moving", registration)
				return registration.Status.Hook != nil && registration.Status.Hook.URL == "http://second.test/path"
			})

			gone := newService("moving")
			create(t, gone)
			update(t, registration, func() { registration.Spec.Hook = refHook("v1", "Service", "moving") })
			moves("http://moving.default.svc.cluster.test")
			remove(t, gone)
			w.waitAMoment("the hook is gone with its Service", tc.most, func() bool {
				hook, err := w.For(itemType)
				return hook == nil && err != nil
			})
			if status := w.status("moving", ConditionHookResolved, v1alpha1.ConditionFalse, ReasonAddressNotResolved); status.Hook != nil {
				t.Errorf("the status still has the address %s", status.Hook.URL)
			}
			create(t, newService("moving"))
			moves("http://moving.default.svc.cluster.test")
		})
	}
}

// A watch ends with the need for it.
func TestWatchesEnd(t *testing.T) {
	var mu sync.Mutex
	watches := map[string]context.Context{}
	watched := func(name string) bool {
		mu.Lock()
		defer mu.Unlock()
		return watches[name] != nil && watches[name].Err() == nil
	}
	w := start(t, options{intercept: func(_ *world, funcs *interceptor.Funcs) {
		funcs.Watch = func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			o := (&client.ListOptions{}).ApplyOptions(opts)
			name, _ := o.FieldSelector.RequiresExactMatch(metav1.ObjectNameField)
			mu.Lock()
			watches[name] = ctx
			mu.Unlock()
			return c.Watch(ctx, list, opts...)
		}
	}})
	registration := register(t, "watching", refHook("v1", "Service", "first"), itemType)
	w.waitUntil("the Service is watched", func() bool { return watched("first") })
	update(t, registration, func() { registration.Spec.Hook.Address.Ref.Name = "second" })
	w.waitUntil("the other Service is watched instead", func() bool { return watched("second") && !watched("first") })
	remove(t, registration)
	w.waitUntil("nothing is watched", func() bool { return !watched("second") })
}

// TestNotReadyInAPhase: a hook that cannot be called stands in the way of the phases alone in which it would be called.
func TestNotReadyInAPhase(t *testing.T) {
	w := start(t, options{})
	hook := refHook("v1", "Service", "no-such-service")
	hook.Capabilities = []v1alpha1.HookCapability{v1alpha1.HookPreReconcile}
	register(t, "one-phase", hook, itemType)
	problem := w.notReady(itemType, ReasonAddressNotResolved)
	if !problem.Concerns(v1alpha1.HookPreReconcile) || problem.Concerns(v1alpha1.HookFinalize) {
		t.Errorf("it concerns other phases than those of its hook: %+v", problem)
	}
}
