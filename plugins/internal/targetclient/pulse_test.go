package targetclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/plugins/internal/targeterror"
	"github.com/pergola-deploy/pergola/sdk"
)

// TestMain finds goroutines that outlive all tests.
func TestMain(m *testing.M) {
	code := m.Run()
	var left bytes.Buffer
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		left.Reset()
		_ = pprof.Lookup("goroutine").WriteTo(&left, 1)
		if !strings.Contains(left.String(), "targetclient.(*") {
			os.Exit(code)
		}
	}
	fmt.Fprintf(os.Stderr, "goroutines are left:\n%s", left.String())
	os.Exit(1)
}

var configMaps = Mapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespaced: true}

// get reads an object of the given name.
func get(ctx context.Context, c *Client, name string) error {
	_, err := c.Objects(configMaps, "ns").Get(ctx, name, metav1.GetOptions{})
	return err
}

func mustGet(t *testing.T, cache *Cache, server string) *Client {
	t.Helper()
	kubeconfig := strings.Replace(string(kubeconfigFor(server)), `"server"`, `"insecure-skip-tls-verify":true,"server"`, 1)
	client, err := cache.Get([]byte(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func mustBeSilent(t *testing.T, c *Client, err error, text string) {
	t.Helper()
	var unanswered *NoAnswerError
	if !errors.As(err, &unanswered) {
		t.Fatalf("expected that the target does not answer, but found %v", err)
	}
	var explained *sdk.Error
	if !errors.As(targeterror.Explain(c.Host, err), &explained) || explained.Reason != targeterror.ReasonUnreachable {
		t.Errorf("expected the reason %s, but found %v", targeterror.ReasonUnreachable, explained)
	}
	if want := "cannot reach target cluster " + c.Host + ": " + text; explained != nil && explained.Err.Error() != want {
		t.Errorf("expected %q, but found %q", want, explained.Err)
	}
}

func TestSilentTarget(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakeClock(time.Now())
			cache := NewCache("test", WithClock(clock))
			slow, healthy := newSlowServer(t, http2, "/"), newSlowServer(t, http2)
			client, other := mustGet(t, cache, slow.URL), mustGet(t, cache, healthy.URL)
			mustAnswer := func(c *Client) {
				t.Helper()
				if err := get(t.Context(), c, "a"); err != nil {
					t.Errorf("expected an answer, but found %v", err)
				}
			}

			const calls = 30
			failures := make(chan error, calls)
			for range calls {
				go func() { failures <- get(t.Context(), client, "a") }()
			}
			waitUntil(t, "all requests", func() bool { seen, _ := slow.counts(); return seen == calls })
			mustAnswer(other)
			clock.Step(patience)
			waitUntil(t, "the probe", func() bool { _, probes := slow.counts(); return probes == 1 })
			mustAnswer(other)
			clock.Step(probeTimeout)
			for range calls {
				mustBeSilent(t, client, <-failures, "no answer for 10s")
			}
			mustAnswer(other)

			for range 10 {
				mustBeSilent(t, client, get(t.Context(), client, "a"), "no answer for 10s")
			}
			if seen, probes := slow.counts(); seen != calls || probes != 1 {
				t.Errorf("a silent target must be left alone for a while, but it saw %d requests and %d probes", seen, probes)
			}
			clock.Step(firstPause)
			for range 10 {
				mustBeSilent(t, client, get(t.Context(), client, "a"), "no answer for 12s")
			}
			waitUntil(t, "the second probe", func() bool { _, probes := slow.counts(); return probes == 2 })
			slow.waitFor()
			waitUntil(t, "the end of silence", func() bool { return get(t.Context(), client, "a") == nil })
			if _, probes := slow.counts(); probes != 2 {
				t.Errorf("expected one probe at a time, but found %d", probes)
			}
		})
	}
}

// TestNextRequestIsNoAnswer: a request that is sent after another one has failed is no sign of life.
func TestNextRequestIsNoAnswer(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	probing := make(chan struct{})
	p := newPulse(clock, func(ctx context.Context, _ bool) error {
		close(probing)
		<-ctx.Done()
		return ctx.Err()
	})
	first, err := p.begin(func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	p.sent(first)
	clock.Step(patience)
	<-probing
	p.end(first) // such as after the timeout of its handshake
	clock.Step(probeTimeout - time.Second)
	cancelled := make(chan error, 1)
	next, err := p.begin(func(err error) { cancelled <- err })
	if err != nil {
		t.Fatal(err)
	}
	p.sent(next)
	clock.Step(time.Second)
	select {
	case err = <-cancelled:
	case <-time.After(30 * time.Second):
	}
	if unanswered := (*NoAnswerError)(nil); !errors.As(err, &unanswered) {
		t.Errorf("expected the target to be silent, but found %v", err)
	}
}

// TestPausesBetweenProbes has a silent target asked less and less often.
func TestPausesBetweenProbes(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	probes := make(chan struct{}, 100)
	p := newPulse(clock, func(context.Context, bool) error {
		probes <- struct{}{}
		return errors.New("refused")
	})
	idle := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.probing
	}
	r, err := p.begin(func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	p.sent(r)
	clock.Step(patience)
	<-probes
	for _, want := range []int{2, 4, 8, 16, 30, 30} {
		waitUntil(t, "the end of the probe", idle)
		clock.Step(time.Duration(want)*time.Second - 1)
		if _, err := p.begin(func(error) {}); err == nil || !idle() {
			t.Fatalf("expected no probe before %d s, but found one, or the error %v", want, err)
		}
		clock.Step(1)
		_, err := p.begin(func(error) {})
		if err == nil || !strings.HasSuffix(err.Error(), ", last: refused") {
			t.Fatalf("expected why the last probe failed, but found %v", err)
		}
		<-probes
	}
	waitUntil(t, "the end of the probe", idle)
	p.end(r)
}

func TestSlowRequestIsNotCutOff(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	server := newSlowServer(t, true, "slow")
	client := mustGet(t, NewCache("test", WithClock(clock)), server.URL)
	done := make(chan error, 2)
	for _, name := range []string{"slow", "slow-for-ever"} {
		go func() { done <- get(t.Context(), client, name) }()
	}
	waitUntil(t, "the requests", func() bool { seen, _ := server.counts(); return seen == 2 })
	p := client.guard.pulse
	for i := range 6 {
		clock.Step(patience)
		waitUntil(t, "a probe", func() bool { _, probes := server.counts(); return probes == i+1 })
		waitUntil(t, "the next look at the target to be set", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.armed && !p.probing
		})
	}
	server.waitFor("ever")
	if err := <-done; err != nil {
		t.Errorf("expected an answer after 30 s, but found %v", err)
	}
	clock.Step(requestTimeout - 6*patience)
	mustBeSilent(t, client, <-done, "no answer for 1m0s")
}

func TestAnswerThatStopsHalfway(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakeClock(time.Now())
			server := newSlowServer(t, http2, "half", "version")
			reads := make(chan struct{}, 10)
			client := mustGet(t, NewCache("test", WithClock(clock), WrapTransport(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					res, err := next.RoundTrip(r)
					if err == nil {
						res.Body = &noted{ReadCloser: res.Body, reads: reads}
					}
					return res, err
				})
			})), server.URL)
			done := make(chan error, 1)
			go func() { done <- get(t.Context(), client, "half") }()
			<-reads
			<-reads // the first half is read
			clock.Step(patience)
			waitUntil(t, "the probe", func() bool { _, probes := server.counts(); return probes == 1 })
			clock.Step(probeTimeout)
			mustBeSilent(t, client, <-done, "no answer for 10s")
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// noted tells when a body is going to be read.
type noted struct {
	io.ReadCloser

	reads chan<- struct{}
}

func (n *noted) Read(p []byte) (int, error) {
	n.reads <- struct{}{}
	return n.ReadCloser.Read(p)
}

func TestWatchesAreNotAwaited(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	server := newSlowServer(t, true, "/")
	client := mustGet(t, NewCache("test", WithClock(clock)), server.URL)
	watching, err := client.Metadata(configMaps, "ns").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	clock.Step(patience)
	waitUntil(t, "nothing to be timed", func() bool { return !clock.HasWaiters() })
	clock.Step(2 * requestTimeout)
	if _, probes := server.counts(); probes > 0 {
		t.Error("a watch that has nothing to say made the target be asked")
	}
	select {
	case event := <-watching.ResultChan():
		t.Fatalf("expected the watch to go on, but found %v", event)
	default:
	}

	done := make(chan error, 1)
	go func() { done <- get(t.Context(), client, "a") }()
	waitUntil(t, "the request", func() bool { seen, _ := server.counts(); return seen == 2 })
	clock.Step(patience)
	waitUntil(t, "the probe", func() bool { _, probes := server.counts(); return probes == 1 })
	clock.Step(probeTimeout)
	mustBeSilent(t, client, <-done, "no answer for 10s")
	waitUntil(t, "the end of the watch", func() bool {
		_, open := <-watching.ResultChan()
		return !open
	})
}

// TestServerThatNeverSpeaks accepts connections, and that is all.
func TestServerThatNeverSpeaks(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	clock := clocktesting.NewFakeClock(time.Now())
	client := mustGet(t, NewCache("test", WithClock(clock)), "https://"+listener.Addr().String())
	done := make(chan error, 1)
	go func() {
		_, err := client.Mapping(t.Context(), schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, time.Now())
		done <- err
	}()
	defer (<-accepted).Close()
	clock.Step(patience)
	defer (<-accepted).Close()
	clock.Step(probeTimeout)
	mustBeSilent(t, client, <-done, "no answer for 10s")
}

func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	client := mustGet(t, NewCache("test"), server.URL)
	for range 3 {
		err := get(t.Context(), client, "a")
		var unanswered *NoAnswerError
		if err == nil || errors.As(err, &unanswered) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("a refusal tells more than that there is no answer, but found %v", err)
		}
	}
}

func TestCancelledRequest(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	server := newSlowServer(t, false, "slow")
	client := mustGet(t, NewCache("test", WithClock(clock)), server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- get(ctx, client, "slow") }()
	waitUntil(t, "the request", func() bool { seen, _ := server.counts(); return seen == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("expected the error of the context, but found %v", err)
	}
	clock.Step(patience)
	waitUntil(t, "nothing to be timed", func() bool { return !clock.HasWaiters() })
	if _, probes := server.counts(); probes > 0 {
		t.Error("nobody waits, but the target was asked")
	}
}
