package apiserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/pergola-deploy/pergola/sdk"
)

// clientOf returns a client for the ConfigMaps of a server. An answer must begin within wait.
func clientOf(
	t *testing.T, server string, wait time.Duration, wrap ...func(http.RoundTripper) http.RoundTripper,
) corev1client.ConfigMapInterface {
	t.Helper()
	timeouts := Timeouts{Connect: time.Minute, Answer: wait}
	config, err := Config(kubeconfigFor(server, ""), Options{Timeouts: timeouts, Wrap: wrap})
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("ns")
}

func kubeconfigFor(server, proxy string) []byte {
	return fmt.Appendf(nil, `{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"insecure-skip-tls-verify":true,"server":%q,"proxy-url":%q}}],
		"users":[{"name":"u","user":{"token":"secret"}}]}`, server, proxy)
}

// serve starts a server and returns a client of it, see clientOf.
func serve(t *testing.T, wait time.Duration, answer http.HandlerFunc) corev1client.ConfigMapInterface {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return clientOf(t, server.URL, wait)
}

// get reads an object of the given name.
func get(ctx context.Context, c corev1client.ConfigMapInterface, name string) error {
	_, err := c.Get(ctx, name, metav1.GetOptions{})
	return err
}

func answerObject(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"ns","resourceVersion":"1"}}`)
}

// Rule (SECURITY.md#secrets): Errors about a kubeconfig hold no secret.
func TestBadKubeconfigIsNotQuoted(t *testing.T) {
	t.Parallel()
	proxied := string(kubeconfigFor("https://example.org", "ftp://me:hunter2@example.org"))
	for _, kubeconfig := range []string{"hunter2: [", "", `{"clusters":"hunter2"}`, proxied} {
		if _, err := Config([]byte(kubeconfig), Options{}); !errors.Is(err, ErrKubeconfig) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("expected ErrKubeconfig, but found %v", err)
		}
	}
}

// TestPermission: a changing request asks first, and is not sent without permission. A read does not ask.
// Rule (plugin-authors.md#options): A request to a target waits for the pick-up if it may change something.
func TestPermission(t *testing.T) {
	t.Parallel()
	var changes atomic.Int32
	client := serve(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			changes.Add(1)
		}
		answerObject(w)
	})
	refusal, asked := errors.New("not picked up"), 0
	ctx := WithPermission(t.Context(), func(context.Context) error {
		asked++
		return refusal
	})
	if err := get(ctx, client, "a"); asked != 0 || err != nil {
		t.Errorf("a read: asked %d times, found %v", asked, err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	for method, write := range map[string]func() error{
		http.MethodPost: func() error {
			_, err := client.Create(ctx, object, metav1.CreateOptions{})
			return err
		},
		http.MethodPut: func() error {
			_, err := client.Update(ctx, object, metav1.UpdateOptions{})
			return err
		},
		http.MethodDelete: func() error { return client.Delete(ctx, "a", metav1.DeleteOptions{}) },
	} {
		asked = 0
		var known *sdk.Error
		err := write()
		if asked != 1 || !errors.Is(err, refusal) || !errors.As(err, &known) || known.Reason != ReasonNotPermitted {
			t.Errorf("%s: asked %d times, found %v", method, asked, err)
		}
	}
	if n := changes.Load(); n != 0 {
		t.Errorf("expected no change, but %d requests were sent", n)
	}
}

// TestRedirects: the credentials of a Target are sent to its server alone.
// Rule (SECURITY.md#owners-of-target-clusters): Credentials of a Target go nowhere but to its server.
func TestRedirects(t *testing.T) {
	t.Parallel()
	elsewhere := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request with %q has left the target", r.Header.Get("Authorization"))
	})
	plain, secure := httptest.NewServer(elsewhere), httptest.NewTLSServer(elsewhere)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("expected the credentials of the Target, but found %q", r.Header.Get("Authorization"))
		}
		to := map[string]string{
			"moved": "/api/v1/namespaces/ns/configmaps/here", "plain": plain.URL, "secure": secure.URL,
			"unencrypted": "http://" + r.Host + "/here",
		}[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]
		if to == "" {
			answerObject(w)
			return
		}
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	})
	server.StartTLS()
	t.Cleanup(server.Close)
	client := clientOf(t, server.URL, time.Minute)
	if err := get(t.Context(), client, "moved"); err != nil {
		t.Errorf("a target may move its own objects, but found %v", err)
	}
	for name, to := range map[string]string{
		"plain": plain.URL, "secure": secure.URL, "unencrypted": strings.Replace(server.URL, "https:", "http:", 1),
	} {
		err := get(t.Context(), client, name)
		if err == nil || !strings.Contains(err.Error(), "redirects to "+to+", where") {
			t.Errorf("%s: expected an error about %s, but found %v", name, to, err)
		}
	}
}

func TestCheckServer(t *testing.T) {
	t.Parallel()
	server := &url.URL{Scheme: "https", Host: "a.example.org:6443", Path: "/k8s"}
	for address, right := range map[string]bool{
		"https://a.example.org:6443/k8s/api": true, "https://a.example.org:6443/": true,
		"http://a.example.org:6443/k8s": false, "https://a.example.org/k8s": false,
		"https://b.example.org:6443/k8s": false, "https://a.example.org.b.example.org:6443/": false,
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		if err := checkServer(req, server); (err == nil) != right {
			t.Errorf("%s: found %v", address, err)
		}
	}
}

// TestPause: nothing sleeps in a request. The error has the length of the pause, whether in seconds or as a date.
// Rule (host-configuration.md#workers): A target with `Retry-After` holds no worker, and the wait is the item's.
func TestPause(t *testing.T) {
	t.Parallel()
	date := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for name, c := range map[string]struct {
		code        int
		retryAfter  string
		least, most time.Duration
	}{
		"busy":        {http.StatusTooManyRequests, "300", 300 * time.Second, 300 * time.Second},
		"unavailable": {http.StatusServiceUnavailable, "300", 300 * time.Second, 300 * time.Second},
		// Rule (host-configuration.md#workers): `Retry-After` may also be a date.
		"date": {http.StatusServiceUnavailable, date, 50 * time.Minute, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := serve(t, time.Minute, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", c.retryAfter)
				w.WriteHeader(c.code)
			})
			var busy *BusyError
			err := get(t.Context(), client, "a")
			if !errors.As(err, &busy) || busy.Code != c.code || busy.After < c.least || busy.After > c.most || !IsSilent(err) {
				t.Errorf("found %v", err)
			}
		})
	}
}

// TestShortPause: a pause of a second is the client's own business.
func TestShortPause(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	client := serve(t, time.Minute, func(w http.ResponseWriter, _ *http.Request) {
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

// TestLargeAnswer: a body has an end, also a compressed one.
// Rule (manifest.md#for-operators): An answer of a target has a largest size.
func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	var mebibyte bytes.Buffer
	out := gzip.NewWriter(&mebibyte)
	_, err := out.Write(bytes.Repeat([]byte{' '}, 1<<20))
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	client := serve(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		for range 2 * (maxBody >> 20) { // which are packed one by one, and so only once
			if _, err := w.Write(mebibyte.Bytes()); err != nil || r.Context().Err() != nil {
				return
			}
		}
	})
	if err := get(t.Context(), client, "a"); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("found %v", err)
	}
}

// TestSlowBody: a begun answer without its end is none.
// Rule (manifest.md#for-operators): An answer of a target ends in time.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	client := serve(t, time.Second, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	checkSlowBody(t, client)
}

// TestSlowBodyWithEnd: the answer stays without its end where the server ends it properly when the client gives up.
func TestSlowBodyWithEnd(t *testing.T) {
	t.Parallel()
	begun := func(http.RoundTripper) http.RoundTripper {
		return answer(func(req *http.Request) (*http.Response, error) {
			body, end := io.Pipe()
			go func() {
				fmt.Fprint(end, `{"apiVersion":`)
				<-req.Context().Done()
				_ = end.Close() // which never fails
			}()
			header := http.Header{"Content-Type": {"application/json"}}
			return &http.Response{StatusCode: http.StatusOK, Header: header, Body: body, Request: req}, nil
		})
	}
	checkSlowBody(t, clientOf(t, "https://example.org", 100*time.Millisecond, begun))
}

// checkSlowBody checks that a request ends as unanswered, and the next one of its call at once.
func checkSlowBody(t *testing.T, client corev1client.ConfigMapInterface) {
	t.Helper()
	call := WithBreaker(t.Context())
	err := get(call, client, "a")
	if !errors.As(err, new(LateError)) || !IsSilent(err) {
		t.Errorf("found %v", err)
	}
	if again := get(call, client, "b"); again == nil || !strings.Contains(again.Error(), "no answer for") {
		t.Errorf("the next request: found %v", again)
	}
}

// TestWebPage: the page of a portal or a proxy is neither an object nor the absence of one.
// Rule (manifest.md#for-operators): A web page is no answer of a target.
func TestWebPage(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]string{
		http.StatusOK:       "it answers with a web page (HTTP 200), as no API server does",
		http.StatusNotFound: "(HTTP 404), as no API server does; correct the address in the Target",
	} {
		client := serve(t, time.Minute, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(code)
			fmt.Fprint(w, "<html>Log in</html>")
		})
		if err := get(t.Context(), client, "a"); !IsSilent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("expected %q, but found %v", want, err)
		}
	}
}

// TestBreaker: after an unanswered request of a call none of its other requests waits.
// Rule (manifest.md#for-operators): A silent target costs a call one timeout.
func TestBreaker(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	silent := func(http.RoundTripper) http.RoundTripper { // without a connection, which takes its time
		return answer(func(req *http.Request) (*http.Response, error) {
			asked.Add(1)
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
	}
	client := clientOf(t, "https://example.org", 100*time.Millisecond, silent)
	call := WithBreaker(t.Context())
	for n := range 50 {
		if err := get(call, client, "a"); !IsSilent(err) {
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
