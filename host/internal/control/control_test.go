package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// fakePlugins are the plugins of a host that is not there.
type fakePlugins struct {
	details    []plugin.Detail
	detailsErr error
	reload     func(ctx context.Context, files []string) ([]plugin.Reloaded, error)
}

var _ Plugins = (*fakePlugins)(nil)

func (f *fakePlugins) Details() ([]plugin.Detail, error) { return f.details, f.detailsErr }

func (f *fakePlugins) Reload(ctx context.Context, files ...string) ([]plugin.Reloaded, error) {
	return f.reload(ctx, files)
}

// shortDir is a directory with a path that is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "control") //nolint:usetesting // that of tests is too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// serve runs a Server until the end of the test, or until the function that it returns has returned.
func serve(t *testing.T, plugins Plugins) (dir string, end func()) {
	t.Helper()
	return serveJobs(t, plugins, noJobs)
}

// serveJobs is serve for a host with jobs.
func serveJobs(t *testing.T, plugins Plugins, jobs Jobs) (dir string, end func()) {
	t.Helper()
	dir = shortDir(t)
	server, err := Listen(t.Context(), dir, plugins, jobs, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		end()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("expected nothing to be left in the directory, but found %v (%v)", left, err)
		}
	})
	return dir, end
}

func mustToken(t *testing.T, dir string) string {
	t.Helper()
	token, err := readToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// slowRequest is the beginning of a request of somebody who has the token.
func slowRequest(t *testing.T, dir string) string {
	t.Helper()
	return "POST " + reloadPath + " HTTP/1.1\r\nHost: host\r\n" + authorization + ": " + bearer + mustToken(t, dir) + "\r\nContent-Length: 10\r\n\r\n{"
}

// full is a plugin of which everything is known.
func full() plugin.Detail {
	return plugin.Detail{
		Status: plugin.Status{
			File: "helm-deployer", State: plugin.Running,
			Info: &plugin.Info{
				Name: "helm", Version: "v1.2.3", SDKVersion: "v0.4.0", Types: []v1alpha1.DeployItemType{"example.org/chart", "example.org/helm"},
				HookedTypes: []v1alpha1.DeployItemType{"example.org/helm", "example.org/other"},
				Capabilities: plugin.Capabilities{
					Abort: true, ForceReconcile: true, Render: true, Validate: true, Configure: true, Watch: true, Diff: true, ContextCredentials: true,
					HostCluster: true, Collect: true, HookTypes: []string{"a", "b"},
				},
			},
			Restarts: map[plugin.Reason]int{plugin.ReasonExit: 2, plugin.ReasonReload: 1}, StartTook: 250 * time.Millisecond, Pid: 4711, Calls: 3, DroppedLines: 9,
		},
		SHA256: strings.Repeat("ab", 32), Memory: 64 << 20, Confinement: "landlock (ABI 7): files",
	}
}

func TestPlugins(t *testing.T) {
	t.Parallel()
	refused := plugin.Detail{Status: plugin.Status{File: "twin", State: plugin.Refused, Problem: errors.New("is\nno plugin")}}
	missing := plugin.Detail{Status: plugin.Status{File: "policy", State: plugin.Missing, Problem: errors.New("put it back")}}
	dir, _ := serve(t, &fakePlugins{details: []plugin.Detail{full(), missing, refused}, detailsErr: errors.New("read plugin twin: it is gone")})
	got, err := NewClient(dir).Plugins(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := &PluginList{
		Plugins: []Plugin{
			{
				File: "helm-deployer", Name: "helm", Version: "v1.2.3", SDKVersion: "v0.4.0", Types: []string{"example.org/chart", "example.org/helm"},
				Capabilities: []string{"abort", "forceReconcile", "render", "validate", "configure", "watch", "diff", "contextCredentials", "hostCluster", "collect", "hooks"}, HookTypes: []string{"a", "b"},
				HookedTypes: []string{"example.org/helm", "example.org/other"}, SHA256: strings.Repeat("ab", 32), State: "Running", Restarts: map[string]int{"exit": 2, "reload": 1}, StartSeconds: 0.25,
				PID: 4711, Calls: 3, MemoryBytes: 64 << 20, Confinement: "landlock (ABI 7): files", DroppedLogLines: 9,
			},
			{File: "policy", State: "Missing", Problem: "put it back"},
			{File: "twin", State: "Refused", Problem: "is\nno plugin"},
		},
		Problem: "read plugin twin: it is gone",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	if got.Plugins[0].Restarted() != 3 {
		t.Errorf("expected 3 restarts, but found %d", got.Plugins[0].Restarted())
	}
}

// Scripts of operators read the names of these fields.
func TestWire(t *testing.T) {
	t.Parallel()
	text, err := json.MarshalIndent(ListOf([]plugin.Detail{full(), {Status: plugin.Status{File: "new", State: plugin.Starting}}}, nil), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "plugins.golden.json")
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)+"\n"); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
	empty, err := json.Marshal(ListOf(nil, nil))
	if err != nil || string(empty) != `{"plugins":[]}` {
		t.Errorf("a host without plugins: %s, %v", empty, err)
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	var asked []string
	dir, _ := serve(t, &fakePlugins{reload: func(_ context.Context, files []string) ([]plugin.Reloaded, error) {
		asked = files
		return []plugin.Reloaded{
			{File: "helm", Action: plugin.ActionRestart},
			{File: "twin", Action: plugin.ActionAdd, Err: errors.New("is no plugin")},
		}, nil
	}})
	got, err := NewClient(dir).Reload(t.Context(), "mistyped", "helm")
	if err != nil {
		t.Fatal(err)
	}
	want := &ReloadResult{Reloaded: []Reloaded{
		{File: "helm", Action: "restart"},
		{File: "mistyped", Error: "there is no plugin of this name in the plugin directory, and none is attached"},
		{File: "twin", Action: "add", Error: "is no plugin"},
	}}
	if diff := cmp.Diff(want, got); diff != "" || !got.Failed() {
		t.Errorf("what was done (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"mistyped", "helm"}, asked); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	got, err = NewClient(dir).Reload(t.Context())
	if err != nil || !got.Failed() || asked != nil {
		t.Errorf("expected all files, but found %q, %v (%v)", asked, got, err)
	}
	if (&ReloadResult{Reloaded: []Reloaded{{File: "helm", Action: "restart"}}}).Failed() {
		t.Error("expected what was done not to have failed")
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	dir, _ := serve(t, &fakePlugins{reload: func(context.Context, []string) ([]plugin.Reloaded, error) {
		return nil, errors.New("the host is stopping")
	}})
	for name, tc := range map[string]struct {
		reason, method, path, body string
		status                     int
		want                       string
	}{
		"host":         {reason: "the host's own reason", method: http.MethodPost, path: reloadPath, status: http.StatusServiceUnavailable, want: "the host is stopping"},
		"garbage":      {reason: "no JSON", method: http.MethodPost, path: reloadPath, body: "{", status: http.StatusBadRequest, want: "unexpected EOF"},
		"unknown":      {reason: "an order that is not understood", method: http.MethodPost, path: reloadPath, body: `{"file":"a"}`, status: http.StatusBadRequest, want: `unknown field "file"`},
		"more":         {reason: "which one is meant?", method: http.MethodPost, path: reloadPath, body: `{}{}`, status: http.StatusBadRequest, want: "one JSON object"},
		"type":         {reason: "no list", method: http.MethodPost, path: reloadPath, body: `{"files":"a"}`, status: http.StatusBadRequest, want: "files"},
		"large":        {reason: "bounded", method: http.MethodPost, path: reloadPath, body: `{"files":["` + strings.Repeat("a", maxBody) + `"]}`, status: http.StatusBadRequest, want: "too large"},
		"version":      {reason: "a later one", method: http.MethodGet, path: "/v2/plugins", status: http.StatusNotFound, want: `no GET "/v2/plugins"`},
		"method":       {reason: "not there", method: http.MethodDelete, path: pluginsPath, status: http.StatusNotFound, want: "no DELETE"},
		"long path":    {reason: "what is said back is bounded", method: http.MethodGet, path: "/" + strings.Repeat("a", 5000), status: http.StatusNotFound, want: "no GET"},
		"empty reload": {reason: "no body stands for all files", method: http.MethodPost, path: reloadPath, body: "", status: http.StatusServiceUnavailable, want: "stopping"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequestWithContext(t.Context(), tc.method, "http://host"+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set(authorization, bearer+mustToken(t, dir))
			response, err := NewClient(dir).http.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			failure := &Failure{}
			if err := json.NewDecoder(response.Body).Decode(failure); err != nil {
				t.Fatalf("%s: the answer is no JSON: %v", tc.reason, err)
			}
			if response.StatusCode != tc.status || !strings.Contains(failure.Error, tc.want) || len(failure.Error) > 500 {
				t.Errorf("%s: expected %d with %q, but found %d with %q", tc.reason, tc.status, tc.want, response.StatusCode, failure.Error)
			}
		})
	}
	if _, err := NewClient(dir).Reload(t.Context()); err == nil || err.Error() != "have the host reload its plugins: the host is stopping" {
		t.Errorf("expected the host's reason, but found: %v", err)
	}
}

// A client that goes does not cut a reload short: it would cut the calls short that the reload waits for.
func TestReloadOutlivesItsClient(t *testing.T) {
	t.Parallel()
	began, finish, finished := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	dir, _ := serve(t, &fakePlugins{reload: func(ctx context.Context, _ []string) ([]plugin.Reloaded, error) {
		if ctx.Value(http.ServerContextKey) != nil {
			t.Error("the context is that of the request, which ends with the client")
		}
		close(began)
		<-finish
		finished <- ctx.Err()
		return nil, nil
	}})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := NewClient(dir).Reload(ctx)
		left <- err
	}()
	<-began
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("expected the end of the context, but found: %v", err)
	}
	close(finish)
	if err := <-finished; err != nil {
		t.Errorf("the reload was told to end: %v", err)
	}
}

// The end of the host ends a reload, and nobody who sends his request byte by byte holds it up.
func TestEnd(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	dir, end := serve(t, &fakePlugins{reload: func(ctx context.Context, _ []string) ([]plugin.Reloaded, error) {
		close(began)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	slow, err := (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	if _, err := io.WriteString(slow, slowRequest(t, dir)); err != nil {
		t.Fatal(err)
	}
	asked := make(chan error, 1)
	go func() {
		_, err := NewClient(dir).Reload(t.Context())
		asked <- err
	}()
	<-began
	end()
	if err := <-asked; err == nil {
		t.Error("expected a reload that was cut short to be an error")
	}
}

// Nobody keeps a connection who does not say what he wants.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	dir, _ := serve(t, &fakePlugins{})
	slow, err := (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	if _, err := io.WriteString(slow, slowRequest(t, dir)); err != nil {
		t.Fatal(err)
	}
	if err := slow.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(slow)
	if err != nil || !strings.Contains(string(answer), " 400 ") {
		t.Errorf("expected to be told, and the end of the connection, but found %q, %v", answer, err)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	if _, err := NewClient(dir).Plugins(t.Context()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), tokenName) {
		t.Errorf("expected that the token is not there, but found: %v", err)
	}
	if _, err := createToken(dir); err != nil {
		t.Fatal(err)
	}
	_, err := NewClient(dir).Plugins(t.Context())
	if !errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "http://") {
		t.Errorf("expected that the socket is not there, in words for people, but found: %v", err)
	}
}

func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	dir, _ := serve(t, &fakePlugins{})
	for _, name := range []string{SocketName, tokenName} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: expected a file that only this user can read and write, but found %v (%v)", name, info, err)
		}
	}
}

func TestListenErrors(t *testing.T) {
	t.Parallel()
	if _, err := Listen(t.Context(), filepath.Join(t.TempDir(), "no", "where"), &fakePlugins{}, noJobs, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("expected an error where there is no directory")
	}
	dir := shortDir(t)
	taken := filepath.Join(dir, SocketName)
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), dir, &fakePlugins{}, noJobs, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("expected an error where something else has the name of the socket")
	}
	if err := os.Remove(taken); err != nil {
		t.Fatal(err)
	}
	server, err := Listen(t.Context(), dir, &fakePlugins{}, noJobs, slog.New(slog.DiscardHandler)) // no token is left in its way
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Errorf("close a server that was never run: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("expected nothing to be left in the directory, but found %v (%v)", left, err)
	}
}
