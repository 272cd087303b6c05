package chartserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// awaitTimeout is how long a test waits for what happens at once.
const awaitTimeout = 30 * time.Second

func TestBooks(t *testing.T) {
	t.Parallel()
	registry := StartRegistry(t, Options{Auth: Bearer, User: user, Password: password})
	get(t, registry.Server, "/v2/", "")
	get(t, registry.Server, "/v2/charts/plain/manifests/1.0.0", "Bearer none")
	get(t, registry.Server, "/v2/charts/plain/blobs/sha256:0?x=y", "")
	get(t, registry.Server, "/v2/charts/plain/tags/list", "")
	get(t, registry.Server, "/token?service=other", BasicAuth(user, password))
	get(t, registry.Server, "/elsewhere", "")
	got := registry.Requests()
	want := []Request{
		{Method: "GET", Host: registry.Host(), Path: "/v2/", Kind: Ping, Status: 401, Done: true},
		{Method: "GET", Host: registry.Host(), Path: "/v2/charts/plain/manifests/1.0.0", Kind: Manifest, Status: 401, Done: true},
		{Method: "GET", Host: registry.Host(), Path: "/v2/charts/plain/blobs/sha256:0", Query: "x=y", Kind: Blob, Status: 401, Done: true},
		{Method: "GET", Host: registry.Host(), Path: "/v2/charts/plain/tags/list", Kind: Tags, Status: 401, Done: true},
		{Method: "GET", Host: registry.Host(), Path: "/token", Query: "service=other", Kind: Token, Status: 400, Done: true},
		{Method: "GET", Host: registry.Host(), Path: "/elsewhere", Kind: Other, Status: 401, Done: true},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Request{}, "Header", "Began", "Bytes")); diff != "" {
		t.Errorf("books (-want +got):\n%s", diff)
	}
	for _, r := range got {
		if r.Bytes == 0 {
			t.Errorf("%s has no bytes", r)
		}
	}
	var credentials []string
	for _, r := range registry.WithCredentials() {
		credentials = append(credentials, r.Header.Get("Authorization"))
	}
	if diff := cmp.Diff([]string{"Bearer none", BasicAuth(user, password)}, credentials); diff != "" {
		t.Errorf("credentials in the books (-want +got):\n%s", diff)
	}
	if n := registry.Count(Manifest, Tags); n != 2 {
		t.Errorf("Count says %d requests for manifests and tags, want 2", n)
	}
	registry.Forget()
	if n := registry.Count(); n != 0 {
		t.Errorf("after Forget there are %d requests", n)
	}
}

func TestStrangersDoNotTrustTheServer(t *testing.T) {
	t.Parallel()
	files, other := StartFiles(t, Options{}), StartFiles(t, Options{})
	client := other.Client()
	defer client.CloseIdleConnections()
	answer, err := client.Do(newRequest(t, http.MethodGet, files.URL(), nil))
	if err == nil {
		_ = answer.Body.Close()
		t.Fatal("a client that trusts another authority gets an answer")
	}
	if files.Count() != 0 {
		t.Error("the request of a client that does not trust the server is in the books")
	}
	same := StartFiles(t, Options{Authority: files.Authority(), Address: "127.0.0.2"})
	answer, err = files.Client().Do(newRequest(t, http.MethodGet, same.URL(), nil))
	if err != nil {
		t.Fatalf("a client that trusts the authority of both servers: %v", err)
	}
	_ = answer.Body.Close()
}

func TestServersListenOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0", "192.0.2.1", "localhost"} {
		if files, err := NewFiles(Options{Address: address}); err == nil {
			t.Errorf("a server listens at %s", address)
			_ = files.Close()
		}
	}
	for name, start := range map[string]func(Options) (io.Closer, error){
		"files":      func(o Options) (io.Closer, error) { return NewFiles(o) },
		"repository": func(o Options) (io.Closer, error) { return NewRepository(o) },
	} {
		if server, err := start(Options{Auth: Bearer}); err == nil {
			t.Errorf("%s: there is no token service", name)
			_ = server.Close()
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789"), 100)
	elsewhere := StartFiles(t, Options{})
	tests := []struct {
		name   string
		reason string
		fault  Fault
		status int
		header map[string]string
		body   []byte
		err    error
	}{
		{
			name: "status", reason: "the status with its headers", fault: Status(503, "Retry-After", "1"),
			status: 503, header: map[string]string{"Retry-After": "1"}, body: []byte("injected: Service Unavailable\n"),
		},
		{name: "answer", reason: "another body", fault: Answer([]byte("other")), status: 200, body: []byte("other")},
		{
			name: "redirect", reason: "the URL that it says", fault: Redirect(302, "http://other.example.org/x"),
			status: 302, header: map[string]string{"Location": "http://other.example.org/x"},
		},
		{
			name: "redirect to server", reason: "path and query are the same", fault: RedirectTo(elsewhere.Server),
			status: 307, header: map[string]string{"Location": elsewhere.URL() + "/file?a=b"},
		},
		{name: "cut", reason: "what has come before the cut, and then nothing", fault: Cut(123), status: 200, body: content[:123], err: io.ErrUnexpectedEOF},
		{name: "cut at once", reason: "headers only", fault: Cut(0), status: 200, body: []byte{}, err: io.ErrUnexpectedEOF},
		{name: "slow", reason: "all of it", fault: Slow(100, time.Millisecond), status: 200, body: content},
		{name: "corrupt", reason: "another byte at the end", fault: Corrupt(), status: 200, body: append(content[:999:999], '9'^0xff)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files := StartFiles(t, Options{})
			files.Put("file", content)
			mend := files.Break(Match{Path: "/file"}, tt.fault)
			client := files.Client()
			defer client.CloseIdleConnections()
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			answer, err := client.Do(newRequest(t, http.MethodGet, files.URL()+"/file?a=b", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if !errors.Is(err, tt.err) {
				t.Errorf("the body ends with %v, want %v", err, tt.err)
			}
			if answer.StatusCode != tt.status {
				t.Errorf("the status is %d, want %d", answer.StatusCode, tt.status)
			}
			for name, value := range tt.header {
				if got := answer.Header.Get(name); got != value {
					t.Errorf("%s: the header %s is %q, want %q", tt.reason, name, got, value)
				}
			}
			if tt.body != nil && !bytes.Equal(body, tt.body) {
				t.Errorf("%s: the body is %q, want %q", tt.reason, body, tt.body)
			}
			mend()
			if got := get(t, files.Server, "/file", ""); got.status != 200 || !bytes.Equal(got.body, content) {
				t.Errorf("after mend the server answers %d", got.status)
			}
		})
	}
}

func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	files := StartFiles(t, Options{})
	files.Put("file", []byte("content"))
	files.Break(Match{}, Endless())
	client := files.Client()
	defer client.CloseIdleConnections()
	answer, err := client.Do(newRequest(t, http.MethodGet, files.URL()+"/file", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.ContentLength != -1 {
		t.Errorf("the server says that there are %d bytes", answer.ContentLength)
	}
	const enough = 10 << 20
	if n, err := io.CopyN(io.Discard, answer.Body, enough); err != nil {
		t.Errorf("the answer ends after %d bytes: %v", n, err)
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		reason string
		match  Match
		want   []int // the status of each request: index.yaml, file, file, file
	}{
		{name: "all", reason: "the zero value is all", want: []int{500, 500, 500, 500}},
		{name: "kind", reason: "only the kind", match: Match{Kind: Index}, want: []int{500, 200, 200, 200}},
		{name: "path", reason: "only the path", match: Match{Path: "/file"}, want: []int{200, 500, 500, 500}},
		{name: "method", reason: "only the method", match: Match{Method: "POST"}, want: []int{200, 200, 200, 200}},
		{name: "times", reason: "so many that match", match: Match{Kind: File, Times: 2}, want: []int{200, 500, 500, 200}},
		{name: "skip", reason: "after so many that match", match: Match{Kind: File, Skip: 1, Times: 1}, want: []int{200, 200, 500, 200}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			repository := StartRepository(t, Options{})
			repository.Put("file", nil)
			repository.Break(tt.match, Status(500))
			repository.Break(Match{Kind: "none"}, Status(400))
			var got []int
			for _, path := range []string{"/index.yaml", "/file", "/file", "/file"} {
				got = append(got, get(t, repository.Server, path, "").status)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func TestHold(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), awaitTimeout)
	defer cancel()
	files := StartFiles(t, Options{})
	files.Put("file", []byte("content"))
	release := make(chan struct{})
	files.Break(Match{}, Hold(release))
	client := files.Client()
	defer client.CloseIdleConnections()
	statuses := make(chan int)
	for range 3 {
		request := newRequest(t, http.MethodGet, files.URL()+"/file", nil)
		go func() { statuses <- statusOf(client, request) }()
	}
	if err := files.Await(ctx, File, 3); err != nil {
		t.Fatal(err)
	}
	for _, r := range files.Requests() {
		if r.Done || r.Status != 0 {
			t.Errorf("%s is answered", r)
		}
	}
	close(release)
	for range 3 {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("after the release the server answers %d", status)
		}
	}
}

// statusOf is what a request is answered with, and zero if it is not.
func statusOf(client *http.Client, request *http.Request) int {
	answer, err := client.Do(request)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

func TestCloseEndsWhatHangs(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]Fault{"hang": Hang(), "stall": Stall(3), "slow": Slow(1, time.Hour)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), awaitTimeout)
			defer cancel()
			files, err := NewFiles(Options{})
			if err != nil {
				t.Fatal(err)
			}
			files.Put("file", []byte("content"))
			files.Break(Match{}, fault)
			ended := make(chan error)
			request := newRequest(t, http.MethodGet, files.URL()+"/file", nil)
			go func() {
				client := files.Client()
				defer client.CloseIdleConnections()
				answer, err := client.Do(request)
				if err == nil {
					_, err = io.ReadAll(answer.Body)
					_ = answer.Body.Close()
				}
				ended <- err
			}()
			if err := files.Await(ctx, File, 1); err != nil {
				t.Fatal(err)
			}
			if err := files.Close(); err != nil {
				t.Error(err)
			}
			select {
			case err := <-ended:
				if err == nil {
					t.Error("the request is answered")
				}
			case <-ctx.Done():
				t.Error("the request still hangs")
			}
			if err := files.Close(); err != nil {
				t.Errorf("close again: %v", err)
			}
		})
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	files := StartFiles(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := files.Await(ctx, File, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Await returns %v", err)
	}
}
