package httphook

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What a structured error says counts.
// Rule (hooks.md#answers): An answer other than 2xx is an error with its message.
func TestStructuredErrors(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]Error{
		``:                                    {Reason: ReasonFailed},
		`,"continue":false`:                   {Reason: ReasonFailed},
		`,"permanent":false,"continue":false`: {Reason: ReasonFailed},
		`,"permanent":false,"continue":true`:  {Reason: ReasonFailed, Continue: true},
		`,"permanent":true`:                   {Reason: ReasonPermanentError, Permanent: true},
		`,"permanent":true,"continue":true`:   {Reason: ReasonFailed, Continue: true},
	} {
		for phase, call := range phases {
			t.Run(flags+"/"+string(phase), func(t *testing.T) {
				t.Parallel()
				h := hookAnswering(t, http.StatusConflict, `{"message":"no licence"`+flags+`}`)
				want := want
				want.Registration, want.Phase, want.URL, want.Code = "labels", phase, h.URL(), http.StatusConflict
				want.Message = "the answer was 409: no licence"
				if diff := cmp.Diff(&want, hookError(t, call(t, h))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Without the structure that the API gives an error is a text, and worth another try.
func TestPlainTextErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ reason, body, want string }{ // by default the body is wanted
		"Text":          {reason: "as proxies answer", body: "no healthy upstream\n", want: "no healthy upstream"},
		"Empty":         {reason: "nothing at all", want: "it has no message"},
		"OtherJSON":     {reason: "an object that says nothing of what the API knows", body: `{"error":"boom"}`},
		"WrongTypes":    {reason: "a text is no truth value", body: `{"message":"x","permanent":"yes"}`},
		"MessageIsAMap": {reason: "a message is a text", body: `{"message":{},"continue":true}`},
		"OtherCase":     {reason: "names are compared letter by letter", body: `{"Message":"x","Continue":true}`},
		"Twice":         {reason: "nobody knows which one counts", body: `{"permanent":false,"permanent":true}`},
		"Control": {reason: "control characters are made visible",
			body: "a\x1b[31mb\u202e\nc", want: `a\x1b[31mb\u202e\nc`},
		"Huge": {reason: "bounded before it is read",
			body: strings.Repeat("a", 1<<20), want: strings.Repeat("a", 1024-len("…")) + "…"},
		"HugeStructure": {reason: "cut off, so no structure",
			body: `{"permanent":true,"message":"` + strings.Repeat("a", 1<<20) + `"}`,
			want: `{"permanent":true,"message":"` + strings.Repeat("a", 995-len("…")) + "…"},
		"NoUTF8": {reason: "replaced", body: "a\xffb", want: "a\ufffdb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := hookError(t, hookAnswering(t, http.StatusServiceUnavailable, tc.body).Finalize(t.Context(), "", item()))
			if tc.want == "" {
				tc.want = tc.body
			}
			want := &Error{Code: http.StatusServiceUnavailable, Reason: ReasonFailed, Message: "the answer was 503: " + tc.want}
			if diff := cmp.Diff(want, failed, cmpopts.IgnoreFields(Error{}, "Registration", "Phase", "URL")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// silentAfter returns a handler that begins an answer and does not end it before the test ends.
func silentAfter(t *testing.T, begin func(http.ResponseWriter)) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		if begin != nil {
			begin(w)
			w.(http.Flusher).Flush()
		}
		_, _ = io.Copy(io.Discard, r.Body) // the server only sees that the client is gone after that
		select {
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
	}
}

// Rule (hooks.md#registration): A hook is tried again after its timeout.
func TestTimeout(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(http.ResponseWriter){
		"NoAnswer":     nil,
		"HalfAnAnswer": func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"object":`) },
		"HalfAnError":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metrics := NewMetrics()
			o := Options{URL: serve(t, silentAfter(t, begin)), Timeout: 50 * time.Millisecond, Metrics: metrics}
			failed := hookError(t, finalize(t, o))
			if failed.Reason != ReasonTimeout || failed.Permanent || !strings.Contains(failed.Message, "50ms") {
				t.Errorf("expected a %s that is tried again and says after how long, but found %#v", ReasonTimeout, failed)
			}
			expectMetrics(t, metrics, map[string]float64{"timeout finalize labels": 1, "finalize labels": 1})
		})
	}
}

// The end of the context ends the request, and is no failure of the hook.
func TestEndOfContext(t *testing.T) {
	t.Parallel()
	stopped := errors.New("the host stops")
	metrics := NewMetrics()
	ctx, cancel := context.WithCancelCause(t.Context())
	h := newHook(Options{Metrics: metrics, URL: serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel(stopped)
		<-r.Context().Done() // or the server would not come to its end
	})})
	err := h.Finalize(ctx, "", item())
	var failed *Error
	if !errors.Is(err, stopped) || errors.As(err, &failed) {
		t.Errorf("expected %q and no failure of the hook, but found %v", stopped, err)
	}
	expectMetrics(t, metrics, map[string]float64{"canceled finalize labels": 1, "finalize labels": 1})
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	breaks := func(write string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, write)
			_ = conn.Close()
		}
	}
	for name, tc := range map[string]struct {
		reason, url string
		code        int
	}{
		// Rule (hooks.md#answers): An unreachable hook is tried again.
		"Refused":  {reason: "nobody listens", url: closed.URL},
		"NoAnswer": {reason: "the server dies", url: serve(t, breaks("")).String()},
		"CutOff": {reason: "the server dies in the middle",
			url: serve(t, breaks("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")).String(), code: http.StatusOK},
		"Headers": {reason: "more than anybody reads",
			url: serve(t, breaks("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("a", 1<<20)+"\r\n\r\n")).String()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := parse(t, tc.url+"/path?token=secret")
			metrics := NewMetrics()
			failed := hookError(t, finalize(t, Options{URL: u, Metrics: metrics}))
			if failed.Reason != ReasonUnreachable || failed.Permanent || failed.Code != tc.code {
				t.Errorf("%s: expected a %s that is tried again, but found %#v", tc.reason, ReasonUnreachable, failed)
			}
			want := fmt.Sprintf("hook of DeployerRegistration %q (finalize, POST %s/path): no whole answer: ", "labels", tc.url)
			if got := failed.Error(); !strings.HasPrefix(got, want) || strings.Contains(got, "secret") {
				t.Errorf("%s: expected %q and no query, but found %q", tc.reason, want, got)
			}
			expectMetrics(t, metrics, map[string]float64{"error finalize labels": 1, "finalize labels": 1})
		})
	}
}

func TestAnswerLimit(t *testing.T) {
	t.Parallel()
	const limit = 64 << 20
	write := func(w io.Writer, size int) {
		chunk := bytes.Repeat([]byte{' '}, 1<<20)
		for ; size > 0; size -= len(chunk) {
			if _, err := w.Write(chunk[:min(size, len(chunk))]); err != nil {
				return // the client has had enough
			}
		}
	}
	for name, tc := range map[string]struct {
		reason   string
		handler  http.HandlerFunc
		violates bool
	}{
		"Limit": {reason: "still read", handler: func(w http.ResponseWriter, _ *http.Request) { write(w, limit) }},
		"More":  {"one byte too many", func(w http.ResponseWriter, _ *http.Request) { write(w, limit+1) }, true},
		"Compressed": {reason: "what counts is what it becomes", violates: true,
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				compressed := gzip.NewWriter(w)
				write(compressed, limit+1)
				_ = compressed.Close()
			}},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: each takes much memory
			err := finalize(t, Options{URL: serve(t, tc.handler), Timeout: maxTimeout})
			if tc.violates {
				expectViolation(t, tc.reason, err, "64 MiB")
			} else if err != nil {
				t.Errorf("%s: %v", tc.reason, err)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) {
		t.Error("the request left the hook")
	})
	// The server redirects from /<n> to /<n-1>, and answers at /0 if it still gets the whole request.
	var whole string
	countdown := func(w http.ResponseWriter, r *http.Request) {
		var left int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &left); err != nil {
			t.Error(err)
		}
		if left > 0 {
			http.Redirect(w, r, fmt.Sprintf("/%d", left-1), http.StatusTemporaryRedirect)
			return
		}
		body, _ := io.ReadAll(r.Body)
		whole = fmt.Sprintf("%s %s %t", r.Method, r.Header.Get("Content-Type"), bytes.Contains(body, []byte(`"uid":"5f2a"`)))
		w.WriteHeader(http.StatusNoContent)
	}
	to := func(code int, location string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if location != "" {
				w.Header().Set("Location", strings.ReplaceAll(location, "HOST", r.Host))
			}
			w.WriteHeader(code)
		}
	}
	for name, tc := range map[string]struct {
		reason    string
		handler   http.HandlerFunc
		path      string
		violation string // what the message has; empty for none
	}{
		"Three": {reason: "as many as one needs", handler: countdown, path: "/3"},
		"Four":  {reason: "more than one needs", handler: countdown, path: "/4", violation: "at most 3"},
		"Found": {reason: "it would become a GET", handler: to(http.StatusFound, "/0"), violation: "302"},
		// Rule (SECURITY.md#network): A redirect of an HTTP hook leads nowhere else.
		"Elsewhere": {reason: "the item is nobody else's",
			handler: to(http.StatusPermanentRedirect, elsewhere.String()), violation: "308"},
		"User": {reason: "nor another user's",
			handler: to(http.StatusTemporaryRedirect, "http://user:secret@HOST/"), violation: "307"},
		"Scheme": {reason: "another scheme is another server",
			handler: to(http.StatusTemporaryRedirect, "https://HOST/"), violation: "307"},
		"Port": {reason: "so is another port",
			handler: to(http.StatusTemporaryRedirect, "http://127.0.0.1/"), violation: "307"},
		"NoLocation": {reason: "nowhere to go", handler: to(http.StatusTemporaryRedirect, ""), violation: "307"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := serve(t, tc.handler)
			u.Path = tc.path
			err := finalize(t, Options{URL: u})
			if tc.violation != "" {
				expectViolation(t, tc.reason, err, tc.violation)
			} else if err != nil || whole != "POST application/json; charset=UTF-8 true" {
				t.Errorf("%s: found the request %q (%v)", tc.reason, whole, err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: the message has the password: %v", tc.reason, err)
			}
		})
	}
}

// proxyEnv marks the process that TestNoProxy starts: a process reads the environment for its proxies once.
const proxyEnv = "HTTPHOOK_TEST_PROXY"

// A proxy would see what a hook sees.
// Rule (SECURITY.md#network): HTTP hooks are called by no proxy.
func TestNoProxy(t *testing.T) {
	t.Parallel()
	if os.Getenv(proxyEnv) == "" {
		proxy := serve(t, func(http.ResponseWriter, *http.Request) {
			t.Error("the proxy was asked")
		}).String()
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxy$")
		child.Env = append(os.Environ(), proxyEnv+"=1", "HTTP_PROXY="+proxy, "http_proxy="+proxy, "NO_PROXY=", "no_proxy=")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	// No proxy is ever asked for an address of loopback, so the test takes one that is not.
	failed := hookError(t, finalize(t, Options{URL: parse(t, "http://hook.invalid")}))
	if !strings.Contains(failed.Message, "lookup hook.invalid") {
		t.Errorf("expected that the name is looked up and not known, but found %v", failed)
	}
}
