package target

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/sdk"
)

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

func answerObject(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"ns","resourceVersion":"1"}}`)
}

// silentServer starts a server that never answers: it takes requests, or connections alone.
func silentServer(t *testing.T, requests, http2 bool) string {
	t.Helper()
	if !requests {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		return "https://" + listener.Addr().String()
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// TestSilentTarget: whoever asks a target that does not answer hears of that in time.
func TestSilentTarget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ requests, http2 bool }{
		"connections": {}, "HTTP/1": {requests: true}, "HTTP/2": {requests: true, http2: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := mustGet(t, NewCache("test", func(s *settings) {
				s.timeouts = timeouts{connect: 100 * time.Millisecond, answer: 200 * time.Millisecond}
			}), silentServer(t, c.requests, c.http2))
			for what, ask := range map[string]func() error{
				"the cluster": func() error { _, err := client.Cluster(t.Context(), time.Now()); return err },
				"a kind": func() error {
					_, err := client.Mapping(t.Context(), gvk("", "v1", "ConfigMap"), time.Now())
					return err
				},
				"an object": func() error { return get(t.Context(), client, "a") },
			} {
				err := ask()
				var explained *sdk.Error
				if !errors.As(Explain(client.Host, err), &explained) || explained.Reason != ReasonUnreachable {
					t.Errorf("%s: expected the reason %s, but found %v", what, ReasonUnreachable, err)
				}
				if !ConcernsAll(t.Context(), err) {
					t.Errorf("%s: expected that nobody asks for anything else, but found %v", what, err)
				}
			}
		})
	}
}

// TestSharedAnswer: a target is asked once by all who want to know the same, and one who gives up takes no answer away
// from the others.
func TestSharedAnswer(t *testing.T) {
	t.Parallel()
	var s shared[int]
	var asked atomic.Int32
	begun, answered := make(chan struct{}), make(chan struct{})
	ask := func(ctx context.Context) (int, error) {
		if asked.Add(1) == 1 {
			close(begun)
		}
		<-answered
		return 7, ctx.Err()
	}
	began := time.Now()
	impatient, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := s.get(impatient, began, time.Hour, ask)
		left <- err
	}()
	<-begun
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("expected that who gives up does not wait, but found %v", err)
	}
	type answer struct {
		value int
		err   error
	}
	answers := make(chan answer)
	for range 3 {
		go func() {
			value, err := s.get(t.Context(), began, time.Hour, ask)
			answers <- answer{value, err}
		}()
	}
	close(answered)
	for range 3 {
		if a := <-answers; a != (answer{value: 7}) {
			t.Errorf("expected the answer, but found %v", a)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("expected one question, but found %d", n)
	}
	s.forget()
	if _, err := s.get(t.Context(), began, time.Hour, ask); err != nil || asked.Load() != 2 {
		t.Errorf("expected another question after forgetting, but found %d and %v", asked.Load(), err)
	}
	if _, err := s.get(t.Context(), time.Now().Add(time.Hour), time.Hour, ask); err != nil || asked.Load() != 3 {
		t.Errorf("expected that nobody waits for the future, but found %d and %v", asked.Load(), err)
	}
}

// boundedClient is a client of a server that answers as it is told.
func boundedClient(t *testing.T, wait time.Duration, answer http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return mustGet(t, NewCache("test", func(s *settings) {
		s.timeouts = timeouts{connect: time.Minute, answer: wait}
	}), server.URL)
}

// TestTargetThatAsksToWait: nobody sleeps in a request. The error says how long the target wants to be left alone.
// Rule (host-configuration.md#workers): A target with `Retry-After` holds no worker, and the wait is the item's.
func TestTargetThatAsksToWait(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			client := boundedClient(t, time.Minute, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "300")
				w.WriteHeader(code)
			})
			err := get(t.Context(), client, "a")
			var explained *sdk.Error
			if !errors.As(Explain(client.Host, err), &explained) || explained.Reason != ReasonBusy ||
				!explained.TargetSilent || explained.RetryAfter != 300*time.Second {
				t.Errorf("found %#v", explained)
			}
			if !ConcernsAll(t.Context(), err) {
				t.Errorf("expected that nobody asks for anything else, but found %v", err)
			}
		})
	}
}

// TestTargetThatAsksToWaitUntil: a date says the same as seconds do.
// Rule (host-configuration.md#workers): `Retry-After` may also be a date.
func TestTargetThatAsksToWaitUntil(t *testing.T) {
	t.Parallel()
	client := boundedClient(t, time.Minute, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	var explained *sdk.Error
	err := Explain(client.Host, get(t.Context(), client, "a"))
	if !errors.As(err, &explained) || explained.Reason != ReasonBusy || explained.RetryAfter < 50*time.Minute {
		t.Errorf("found %#v", explained)
	}
}

// TestTargetThatSaysNothing: the error of a target that refuses without a word says what it answers.
func TestTargetThatSaysNothing(t *testing.T) {
	t.Parallel()
	client := boundedClient(t, time.Minute, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`)
	})
	err := Explain(client.Host, get(t.Context(), client, "a"))
	if err == nil || !strings.Contains(err.Error(), "it asks to wait (HTTP 429)") {
		t.Errorf("found %v", err)
	}
}

// TestShortPause: a pause of a second is the client's own business.
func TestShortPause(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	client := boundedClient(t, time.Minute, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answerObject(w)
	})
	if err := get(t.Context(), client, "a"); err != nil || asked.Load() != 2 {
		t.Errorf("found %v after %d requests", err, asked.Load())
	}
}

// TestLargeAnswer: a body has an end, also one that was packed.
// Rule (manifest.md#for-operators): An answer of a target has a largest size.
func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	client := boundedClient(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		out := gzip.NewWriter(w)
		spaces := bytes.Repeat([]byte{' '}, 1<<20)
		for range 2 * (maxBody >> 20) {
			if _, err := out.Write(spaces); err != nil || r.Context().Err() != nil {
				return
			}
		}
	})
	if err := get(t.Context(), client, "a"); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("found %v", err)
	}
}

// TestSlowBody: an answer that begins and does not go on is none.
// Rule (manifest.md#for-operators): An answer of a target ends in time.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	client := boundedClient(t, time.Second, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	call := WithBreaker(t.Context())
	err := get(call, client, "a")
	var explained *sdk.Error
	if !errors.As(Explain(client.Host, err), &explained) || explained.Reason != ReasonUnreachable || !explained.TargetSilent {
		t.Errorf("found %v", err)
	}
	if again := get(call, client, "b"); !ConcernsAll(t.Context(), err) || !strings.Contains(again.Error(), "no answer for") {
		t.Errorf("the next request: found %v", again)
	}
}

// TestBreaker: once a target has not answered a request of a call, none of the other requests of the call waits.
// Rule (manifest.md#for-operators): A silent target costs a call one timeout.
func TestBreaker(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	client := boundedClient(t, time.Second, func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		<-r.Context().Done()
	})
	call := WithBreaker(t.Context())
	for n := range 50 {
		if err := get(call, client, "a"); !ConcernsAll(t.Context(), err) {
			t.Fatalf("request %d: found %v", n, err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("expected one request, but found %d", n)
	}
	if err := get(WithBreaker(t.Context()), client, "a"); err == nil || asked.Load() != 2 {
		t.Errorf("another call: found %v after %d requests", err, asked.Load())
	}
}
