package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// killingProxy is between a plugin and its target. It kills somebody at a certain write, and lets nothing pass from then on until it is told
// to go on.
type killingProxy struct {
	*testing.T

	front  *testenv.Proxy
	target http.Handler

	mu     sync.Mutex
	writes int
	// created says how often objects were created, by kind and name.
	created map[string]int
	// strikeAt is the number of the write at which kill is called; 0 for never.
	strikeAt int
	carryOut bool
	kill     func() error
	// struck is closed when somebody was killed, and released when life goes on.
	struck, released chan struct{}
	// passing are the writes on their way to the target. They arrive there, whoever has died meanwhile.
	passing sync.WaitGroup
}

func newKillingProxy(t *testing.T) *killingProxy {
	t.Helper()
	p := &killingProxy{T: t}
	p.begin(0, false, nil)
	var err error
	p.front, err = testenv.StartProxy(controlPlane.Config, func(next *httputil.ReverseProxy) http.Handler {
		next.ModifyResponse = p.noteCreation
		p.target = next
		return p
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.front.Stop)
	return p
}

// createProxiedTarget creates a Target of the name proxied.
func createProxiedTarget(t *testing.T, namespace string, p *killingProxy) {
	t.Helper()
	kubeconfig, err := p.front.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	name := metav1.ObjectMeta{Name: "proxied", Namespace: namespace}
	create(t, &corev1.Secret{ObjectMeta: name, Data: map[string][]byte{"kubeconfig": kubeconfig}})
	create(t, &v1alpha1.Target{ObjectMeta: name, Spec: v1alpha1.TargetSpec{
		Type:      v1alpha1.KubernetesClusterTargetType,
		SecretRef: &v1alpha1.LocalSecretReference{Name: name.Name, Key: "kubeconfig"},
	}})
}

// begin counts from zero and kills at the write of a number, from 1; at none for 0.
func (p *killingProxy) begin(strikeAt int, carryOut bool, kill func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes, p.created = 0, map[string]int{}
	p.strikeAt, p.carryOut, p.kill = strikeAt, carryOut, kill
	p.struck, p.released = make(chan struct{}), make(chan struct{})
	if strikeAt == 0 {
		close(p.released)
	}
}

// ServeHTTP implements http.Handler.
func (p *killingProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	blow, proceed := p.take(r)
	switch {
	case blow != nil:
		blow()
		panic(http.ErrAbortHandler) //nolint:forbidigo // closes the connection without an answer
	case !proceed:
		panic(http.ErrAbortHandler) //nolint:forbidigo // who has sent it is dead
	case isWrite(r):
		defer p.passing.Done()
		testenv.CarryOut(p.target, w, r)
	default:
		p.target.ServeHTTP(w, r)
	}
}

func isWrite(r *http.Request) bool { return r.Method != http.MethodGet && !r.URL.Query().Has("dryRun") }

// take returns what to do instead of passing the request on. It blocks as long as nothing may pass, and tells whether the sender is still
// there then. A write that may pass is among those that are passing.
func (p *killingProxy) take(r *http.Request) (blow func(), proceed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.strikeAt > 0 && p.writes >= p.strikeAt {
		released := p.released
		p.mu.Unlock()
		select {
		case <-released:
		case <-r.Context().Done():
		}
		p.mu.Lock()
		if r.Context().Err() != nil {
			return nil, false
		}
	}
	if !isWrite(r) {
		return nil, true
	}
	if p.writes++; p.writes == p.strikeAt {
		return func() { p.strike(r) }, false
	}
	p.passing.Add(1)
	return nil, true
}

// strike kills somebody in the middle of a request.
func (p *killingProxy) strike(r *http.Request) {
	defer close(p.struck)
	if p.carryOut {
		testenv.CarryOut(p.target, httptest.NewRecorder(), r)
	}
	if err := p.kill(); err != nil {
		p.Errorf("kill at %s %s: %v", r.Method, r.URL.Path, err)
	}
}

// waitBlow waits until the blow was struck.
func (p *killingProxy) waitBlow() {
	p.Helper()
	select {
	case <-p.struck:
		p.passing.Wait()
	case <-time.After(patience):
		p.Fatalf("waiting for write %d: there were only %d", p.strikeAt, p.writes)
	}
}

// goOn lets everything pass again.
func (p *killingProxy) goOn() { close(p.released) }

// counts returns how often objects were created, and how many writes there were, since the stage began. name makes the names of the objects.
func (p *killingProxy) counts(name func(string) string) (created map[string]int, writes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	created = map[string]int{}
	for key, times := range p.created {
		created[name(key)] = times
	}
	return created, p.writes
}

// noteCreation counts the object of an answer that says that it was created.
func (p *killingProxy) noteCreation(response *http.Response) error {
	if response.StatusCode != http.StatusCreated || response.Request.URL.Query().Has("dryRun") {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	created := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(body, created); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.created[created.Kind+" "+created.Name]++
	return nil
}
