package target

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
	"github.com/pergola-deploy/pergola/sdk"
)

var configMaps = Mapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespaced: true}

// get reads an object of the given name.
func get(ctx context.Context, c *Client, name string) error {
	_, err := c.Objects(configMaps, "ns").Get(ctx, name, metav1.GetOptions{})
	return err
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
	silence := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	server := httptest.NewUnstartedServer(http.HandlerFunc(silence))
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// TestSilentTarget: the silence of a target is an error in time.
func TestSilentTarget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ requests, http2 bool }{
		"connections": {}, "HTTP/1": {requests: true}, "HTTP/2": {requests: true, http2: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := apiserver.Timeouts{Connect: 100 * time.Millisecond, Answer: 200 * time.Millisecond}
			cache := NewCache("test", func(s *settings) { s.timeouts = timeouts{Timeouts: limits} })
			client := mustGet(t, cache, silentServer(t, c.requests, c.http2))
			for what, ask := range map[string]func() error{
				"the cluster": func() error { _, err := client.Cluster(t.Context(), time.Now()); return err },
				"a kind": func() error {
					_, err := client.Mapping(t.Context(), gvk("", "v1", "ConfigMap"), time.Now())
					return err
				},
				"an object": func() error { return get(t.Context(), client, "a") },
			} {
				err := ask()
				explained, ok := errors.AsType[*sdk.Error](Explain(client.Host, err))
				if !ok || explained.Reason != ReasonUnreachable || !ConcernsAll(t.Context(), err) {
					t.Errorf("%s: expected %s, and an error against all requests, but found %v", what, ReasonUnreachable, err)
				}
			}
		})
	}
}

// TestSharedAnswer: a target is asked once for all callers with the same question, and the end of one call takes no
// answer away from the others.
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
		t.Errorf("expected no wait after the end of the context, but found %v", err)
	}
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			if value, err := s.get(t.Context(), began, time.Hour, ask); value != 7 || err != nil {
				t.Errorf("expected the answer, but found %d and %v", value, err)
			}
		})
	}
	close(answered)
	callers.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("expected one question, but found %d", n)
	}
	s.forget()
	if _, err := s.get(t.Context(), began, time.Hour, ask); err != nil || asked.Load() != 2 {
		t.Errorf("expected another question after forgetting, but found %d and %v", asked.Load(), err)
	}
	if _, err := s.get(t.Context(), time.Now().Add(time.Hour), time.Hour, ask); err != nil || asked.Load() != 3 {
		t.Errorf("expected no wait for the future, but found %d and %v", asked.Load(), err)
	}
}

// TestTargetThatSaysNothing: the error of a target that refuses without a word says what it answers.
func TestTargetThatSaysNothing(t *testing.T) {
	t.Parallel()
	client := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(
			w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`,
		)
	}))
	err := Explain(client.Host, get(t.Context(), client, "a"))
	if err == nil || !strings.Contains(err.Error(), "it asks to wait (HTTP 429)") {
		t.Errorf("found %v", err)
	}
}
