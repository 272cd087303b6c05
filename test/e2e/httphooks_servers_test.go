package e2e

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// preReconcileOnly is the capability of a hook that has no say in deletions.
var preReconcileOnly = []v1alpha1.HookCapability{v1alpha1.HookPreReconcile}

// bearerToken is what the host logs in with.
const bearerToken = "open-sesame"

// TestHTTPHookServers: what a registration says about the server counts, and a server that is away or slow holds its items back.
func TestHTTPHookServers(t *testing.T) {
	host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "mock", "probe", "counter")})
	namespace := newNamespace(t)
	t.Cleanup(func() {
		if strings.Contains(host.Log(), bearerToken) {
			t.Error("the log of the host tells a secret")
		}
	})
	for name, test := range map[string]func(t *testing.T, namespace string){
		"away and slow":           serverAwayAndSlow,
		"with one capability":     serverWithOneCapability,
		"that cannot be resolved": serverThatCannotBeResolved,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, namespace)
		})
	}
}

// serverAwayAndSlow: the job of an item is tried again while the server is away, and while it is slow. The server proves who it is, and
// the host logs in.
func serverAwayAndSlow(t *testing.T, namespace string) {
	t.Helper()
	first := newHookServer(t)
	first.Listener = listen(t, "tcp", "127.0.0.2:0") // nothing else is given a port of this address meanwhile
	first.StartTLS()
	r := registration("away", first.URL, preReconcileOnly, mockType)
	r.Spec.Hook.Timeout = "PT0.3S"
	r.Spec.Hook.FormFactor = "deployment"
	r.Spec.Hook.TLS = &v1alpha1.HookTLS{SecretRef: authority(t, namespace, first.Server), ServerName: "example.com"}
	r.Spec.Hook.Auth = &v1alpha1.HookAuth{SecretRef: *newSecret(t, namespace, "login", map[string][]byte{"token": []byte(bearerToken)})}
	first.Close()
	register(t, r)
	waitRegistered(t, r, v1alpha1.ConditionTrue)

	item := start(t, newItem(namespace, "item", mockType, mockSucceeds))
	failing := waitHookError(t, item, "HookUnreachable")
	if strings.Contains(failing.Status.LastError.Message, bearerToken) {
		t.Errorf("the message tells a secret: %q", failing.Status.LastError.Message)
	}

	second := newHookServer(t)
	second.answer("item", func(ctx context.Context, _ http.ResponseWriter, _ *hookRequest) { <-ctx.Done() })
	second.Listener = listen(t, "tcp", first.Listener.Addr().String())
	second.StartTLS()
	waitHookError(t, item, "HookTimeout")

	second.answer("item", nil)
	item = waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
	for _, asked := range second.asked(item, preReconcile) {
		if login := asked.header.Get("Authorization"); login != "Bearer "+bearerToken || asked.FormFactor.Name != "deployment" {
			t.Errorf("expected the login and the form factor of the registration, but found %q and %q", login, asked.FormFactor.Name)
		}
	}
}

// authority makes a secret with the authority that a server's certificate is of, and refers to it.
func authority(t *testing.T, namespace string, server *httptest.Server) *v1alpha1.NamespacedSecretReference {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return newSecret(t, namespace, "authority", map[string][]byte{"ca.crt": ca})
}

// serverWithOneCapability: a server is called in the phases that it can handle, and in no others.
func serverWithOneCapability(t *testing.T, namespace string) {
	t.Helper()
	server := newHookServer(t)
	server.Start()
	r := registration("finalizes", server.URL, []v1alpha1.HookCapability{v1alpha1.HookFinalize}, probeType)
	register(t, r)
	waitRegistered(t, r, v1alpha1.ConditionTrue)

	item := carryOut(t, newItem(namespace, "finalized", probeType, probeConfig(t.TempDir())), v1alpha1.DeployItemPhaseSucceeded)
	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	setJob(t, item)
	waitGone(t, item)

	if n := len(server.asked(item, finalize)); n != 1 {
		t.Errorf("expected one request before the deletion, but found %d", n)
	}
	if n := len(server.asked(item, preReconcile)); n != 0 {
		t.Errorf("expected no request before the reconcile, but found %d", n)
	}
}

// serverThatCannotBeResolved: items are held back until their registration is right, and both say what is wrong with it.
func serverThatCannotBeResolved(t *testing.T, namespace string) {
	t.Helper()
	server := newHookServer(t)
	server.Start()
	r := registration("unresolved", "", preReconcileOnly, counterType)
	r.Spec.Hook.Address = v1alpha1.HookAddress{Ref: &v1alpha1.HookReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: "hook"}}
	register(t, r)
	if c := readyOf(waitRegistered(t, r, v1alpha1.ConditionFalse)); !strings.Contains(c.Message, namespace+"/hook") {
		t.Errorf("expected the condition to name the Service, but found %+v", c)
	}
	counts := &counts{t: t, namespace: namespace, dir: t.TempDir()}
	item := start(t, counts.newItem("held-back", 0, 0, 0))
	waitLastError(t, item, "unresolved")
	if n := len(counts.calls(item)); n != 0 {
		t.Errorf("expected the deployer not to be called, but found %d calls", n)
	}

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hook"}}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	create(t, service)
	resolved := waitRegistered(t, r, v1alpha1.ConditionTrue)
	if want := "http://hook." + namespace + ".svc.cluster.local"; resolved.Status.Hook == nil || resolved.Status.Hook.URL != want {
		t.Errorf("expected the address %s, but found %+v", want, resolved.Status.Hook)
	}
	waitHookError(t, item, "HookUnreachable") // there is no such name outside the cluster

	resolved.Spec.Hook.Address = v1alpha1.HookAddress{URI: server.URL}
	if err := admin.Update(t.Context(), resolved); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
	if n := len(server.asked(item, preReconcile)); n != 1 {
		t.Errorf("expected one request, but found %d", n)
	}
}

// TestHTTPHookIsCancelledByShutdown: a host that stops hangs up, and the next one asks again.
func TestHTTPHookIsCancelledByShutdown(t *testing.T) {
	server := newHookServer(t)
	server.Start()
	hungUp := make(chan struct{}, 10)
	server.answer("item", func(ctx context.Context, _ http.ResponseWriter, _ *hookRequest) {
		<-ctx.Done()
		hungUp <- struct{}{}
	})
	r := registration("hangs", server.URL, preReconcileOnly, mockType)
	r.Spec.Hook.Timeout = "PT10M"
	register(t, r)
	options := testenv.HostOptions{PluginDir: pluginDir(t, "mock")}
	host := startReadyHost(t, options)
	item := start(t, newItem(newNamespace(t), "item", mockType, mockSucceeds))
	server.waitAsked(t, item, preReconcile, 1)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := host.Stop(ctx); err != nil {
		t.Fatalf("the host did not stop in order: %v", err)
	}
	waitClosed(t, "the host to hang up", hungUp)
	if fresh := read(t, item); fresh.Status.JobIDFinished == item.Status.JobID || fresh.Status.LastError != nil {
		t.Errorf("a job that the host could not finish must stay as it is, but found %s", describe(fresh))
	}

	server.answer("item", nil)
	startReadyHost(t, options)
	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
	if n := len(server.asked(item, preReconcile)); n != 2 {
		t.Errorf("expected the next host to ask once more, but found %d requests", n)
	}
}

// TestHTTPHookIsCalledAgainAfterTakeover: a replica that takes a job over asks the hook again, for the same job.
func TestHTTPHookIsCalledAgainAfterTakeover(t *testing.T) {
	server := newHookServer(t)
	server.Start()
	server.answer("item", func(ctx context.Context, _ http.ResponseWriter, _ *hookRequest) { <-ctx.Done() })
	r := registration("hangs", server.URL, preReconcileOnly, counterType)
	register(t, r)
	f := newFleet(t)
	f.start(2)
	eventually(t, "both replicas to be in the status of the registration", func(ctx context.Context) (string, error) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(r), r)
		if d := r.Status.Deployers; len(d) != 1 || d[0].Replicas != 2 {
			return fmt.Sprintf("%+v", d), err
		}
		return "", err
	})
	counts := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	item := start(t, counts.newItem("item", 0, 0, 0))
	server.waitAsked(t, item, preReconcile, 1)

	first := f.holder(item)
	server.answer("item", nil)
	f.kill(first)
	f.deletePod(first)

	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
	asked := server.asked(item, preReconcile)
	if len(asked) != 2 || asked[1].Object.Status.JobID != item.Status.JobID {
		t.Errorf("expected a second request for job %s, but found %s", item.Status.JobID, marshal(t, asked))
	}
	if n := len(counts.begun(item)); n != 1 {
		t.Errorf("expected one call of the deployer, but found %d", n)
	}
}
