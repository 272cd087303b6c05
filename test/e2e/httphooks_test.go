package e2e

import (
	"context"
	"encoding/pem"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	preReconcile = "pre-reconcile"
	finalize     = "finalize"
	// checkedCondition is what the hook reports.
	checkedCondition v1alpha1.ConditionType = "Checked"
	// bearerToken is what the host logs in with.
	bearerToken = "open-sesame"
)

// TestHTTPHook follows an item with an HTTP hook: it waits for the server, is deployed as that has changed it, and
// is deleted when that agrees.
func TestHTTPHook(t *testing.T) {
	host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	down := newHookServer(t)
	down.Listener = listen(t, "tcp", "127.0.0.2:0") // nothing else is given a port of this address meanwhile
	down.StartTLS()
	registerServer(t, namespace, down)
	down.Close()

	item := start(t, manifestItem(namespace, "item", "my-target",
		configMap(namespace, "one", "x"), configMap(namespace, "two", "x")))
	e := waitLastError(t, item, "DeployerRegistration").Status.LastError
	if e.Reason != "HookUnreachable" || strings.Contains(e.Message, bearerToken) {
		t.Errorf("expected an error that names the registration and tells no secret, but found %s", marshal(t, e))
	}

	server := newHookServer(t)
	server.answer(item.Name, label)
	server.Listener = listen(t, "tcp", down.Listener.Addr().String())
	server.StartTLS()
	item = waitPhase(t, item, succeeded)
	checkLabelled(t, server, item)
	deleteWithConsent(t, server, item)
	if strings.Contains(host.Log(), bearerToken) {
		t.Error("the log of the host tells a secret")
	}
}

// registerServer registers a server with all that a registration can say, and checks its status.
func registerServer(t *testing.T, namespace string, s *hookServer) {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	authority := newSecret(t, namespace, "authority", "ca.crt", ca)
	login := newSecret(t, namespace, "login", "token", []byte(bearerToken))
	r := registration(namespace, s.URL, bothPhases, manifestType)
	r.Spec.Hook.FormFactor = "deployment"
	r.Spec.Hook.ConditionsFromHook = []v1alpha1.HookCondition{{Type: checkedCondition}}
	r.Spec.Hook.TLS = &v1alpha1.HookTLS{SecretRef: &authority, ServerName: "example.com"}
	r.Spec.Hook.Auth = &v1alpha1.HookAuth{SecretRef: login}
	register(t, r)
	r = waitRegistered(t, r, v1alpha1.ConditionTrue)
	if r.Status.Hook == nil || r.Status.Hook.URL != s.URL {
		t.Errorf("expected the address %s, but found %+v", s.URL, r.Status.Hook)
	}
	if d := r.Status.Deployers; len(d) != 1 || d[0].Plugin != "manifest" || d[0].Replicas != 1 || d[0].Version == "" {
		t.Errorf("expected the plugin manifest of one host, but found %+v", d)
	}
}

func newSecret(t *testing.T, namespace, name, key string, value []byte) v1alpha1.NamespacedSecretReference {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	create(t, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{key: value}})
	return v1alpha1.NamespacedSecretReference{Namespace: namespace, Name: name}
}

// label adds a label to each object, and reports a condition. That it changes more of the item does not count.
func label(_ context.Context, w http.ResponseWriter, r *hookRequest) {
	for _, child := range r.Children {
		child["metadata"].(map[string]any)["labels"] = map[string]any{"hooked": "true"}
	}
	r.Object.Labels = map[string]string{"changed": "true"}
	r.Object.Status.Phase, r.Object.Status.JobID = failed, "other"
	r.Object.Status.Conditions = []v1alpha1.Condition{
		{Type: checkedCondition, Status: v1alpha1.ConditionTrue, Reason: "AllChecked", Message: "all is well"},
	}
	respondWith(w, r.Object, r.Children)
}

// checkLabelled checks what was deployed, what the item says, and what the hook was asked.
func checkLabelled(t *testing.T, s *hookServer, item *v1alpha1.DeployItem) {
	t.Helper()
	for _, name := range []string{"one", "two"} {
		deployed := &corev1.ConfigMap{}
		err := admin.Get(t.Context(), client.ObjectKey{Namespace: item.Namespace, Name: name}, deployed)
		if err != nil || deployed.Labels["hooked"] != "true" || deployed.Data["key"] != "x" {
			t.Errorf("expected ConfigMap %s with a label more, but found %s, error %v", name, marshal(t, deployed), err)
		}
	}
	if conditionOf(item, checkedCondition).Reason != "AllChecked" || len(item.Labels) != 0 {
		t.Errorf("expected the condition that the hook has reported and nothing more, but found %s", marshal(t, item))
	}
	asked := s.asked(item, preReconcile)
	if len(asked) == 0 {
		t.Fatal("the server was not asked")
	}
	r := asked[0]
	if r.FormFactor.Name != "deployment" || r.Object.UID != item.UID || len(r.Children) != 2 ||
		!slices.Contains(r.Object.Finalizers, v1alpha1.Finalizer) {
		t.Errorf("expected both objects of an item with its finalizer, but found %s", marshal(t, r))
	}
	if login := r.header.Get("Authorization"); login != "Bearer "+bearerToken {
		t.Errorf("expected the host to log in, but found %q", login)
	}
}

// deleteWithConsent: until the hook agrees the item stays, and what it has deployed.
func deleteWithConsent(t *testing.T, s *hookServer, item *v1alpha1.DeployItem) {
	t.Helper()
	s.answer(item.Name, func(_ context.Context, w http.ResponseWriter, _ *hookRequest) {
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"message":"not yet"}`))
	})
	deleteObject(t, item)
	setJob(t, item)
	if refused := waitLastError(t, item, "not yet"); !slices.Contains(refused.Finalizers, v1alpha1.Finalizer) {
		t.Errorf("expected the item to keep its finalizer, but found %v", refused.Finalizers)
	}
	expectConfigMap(t, item.Namespace, "one", true)
	s.answer(item.Name, nil)
	waitGone(t, item)
	if n := len(s.asked(item, finalize)); n < 2 {
		t.Errorf("expected a refusal and a consent, but the hook was asked %d times", n)
	}
	expectConfigMap(t, item.Namespace, "one", false)
}
