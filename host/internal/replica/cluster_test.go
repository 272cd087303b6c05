package replica

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/await"
)

const (
	// leaseDuration is that of the replicas of a test.
	leaseDuration = 3 * time.Second
	// patience is how long a test waits for what must come.
	patience = 30 * time.Second
)

// namespace is a namespace of the real API server.
type namespace string

func newNamespace(t *testing.T) namespace {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "replica-"}}
	if err := admin.Create(t.Context(), ns); err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	return namespace(ns.Name)
}

func (n namespace) createPod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: string(n), Name: name},
		Spec: corev1.PodSpec{
			Containers:                   []corev1.Container{{Name: "host", Image: "host"}},
			AutomountServiceAccountToken: new(bool),
		},
	}
	if err := admin.Create(t.Context(), pod); err != nil {
		t.Fatalf("create pod: %v", err)
	}
	return pod
}

func (n namespace) deletePod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatalf("delete pod: %v", err)
	}
}

func (n namespace) lease(t *testing.T, podName string) *coordinationv1.Lease {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: string(n), Name: LeaseName(podName)}, lease); err != nil {
		t.Fatalf("read Lease: %v", err)
	}
	return lease
}

// host is a replica that runs in a test.
type host struct {
	*Replicas
	network *network
	heard   *heard
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error // of Run, when it has ended
}

// start joins a replica for a pod that is there, and runs it until it is stopped or the test ends.
func (n namespace) start(t *testing.T, podName string) *host {
	t.Helper()
	h := &host{network: &network{}, heard: &heard{}, ended: make(chan struct{})}
	config := rest.CopyConfig(controlPlane.Config)
	config.Wrap(h.network.wrap)
	var err error
	h.Replicas, err = Join(t.Context(), Options{
		Config: config, Namespace: string(n), PodName: podName, Group: "g", LeaseDuration: leaseDuration,
	})
	if err != nil {
		t.Fatalf("join: %v", err)
	}
	h.Serve([]string{plugin})
	h.heard.host = h.Replicas
	h.Subscribe(h.heard)
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	go func() {
		defer close(h.ended)
		h.err = h.Run(ctx)
	}()
	t.Cleanup(h.stop)
	return h
}

func (h *host) stop() {
	h.cancel()
	<-h.ended
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	await.That(t, patience, what, so)
}

// heard is a listener that counts what it hears.
type heard struct {
	host *Replicas

	mu                       sync.Mutex
	died                     map[string]int
	changed, lapsed, renewed int
	// confused: it heard what was not so at that time.
	confused bool
}

func (h *heard) ReplicaDied(podName string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.died == nil {
		h.died = map[string]int{}
	}
	h.died[podName]++
}

func (h *heard) ReplicasChanged() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed++
}

func (h *heard) Lapsed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.confused = h.confused || h.host.Valid()
	h.lapsed++
}

func (h *heard) Renewed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewed++
}

func (h *heard) deaths(podName string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.died[podName]
}

func (h *heard) lapses() (lapsed, renewed int, confused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lapsed, h.renewed, h.confused
}

var errCut = errors.New("the network is cut")

// network is the way of a replica to the API server, which can be cut.
type network struct {
	// cut: nothing gets through. late: watches and lists of Leases do not.
	cut, late atomic.Bool
	gets      atomic.Int64 // of single Leases
}

func (n *network) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		many := r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/leases")
		cut := func() bool { return n.cut.Load() || many && n.late.Load() }
		if cut() {
			return nil, errCut
		}
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/leases/") {
			n.gets.Add(1)
		}
		response, err := next.RoundTrip(r)
		if err == nil {
			response.Body = &cutBody{ReadCloser: response.Body, cut: cut}
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// cutBody is a body that ends when the network is cut.
type cutBody struct {
	io.ReadCloser
	cut func() bool
}

func (b *cutBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.cut() {
		return 0, errCut
	}
	return n, err
}
