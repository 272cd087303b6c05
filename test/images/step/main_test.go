package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRun(t *testing.T) {
	for _, test := range []struct {
		reason  string
		args    []string
		code    int
		out     string
		errs    string // what standard error contains
		exports string
	}{
		{reason: "a line is printed", args: []string{"say", "hello", "world"}, out: "hello world\n"},
		{reason: "actions follow one another", args: []string{"say", "a", "--", "say", "b", "--", "exit", "3", "--", "say", "c"}, code: 3, out: "a\nb\n"},
		{reason: "exports need not be well-formed", args: []string{"export", "{"}, exports: "{"},
		{reason: "the last exports count", args: []string{"export", "1", "--", "export", "2"}, exports: "2"},
		{reason: "the count goes on", args: []string{"count", "--", "count"}, exports: `{"count":2}`},
		{reason: "all bytes are printed", args: []string{"print", "100"}, out: (line + line)[:100]},
		{reason: "what is there is not awaited", args: []string{"await", "/", "--", "sleep", "1ns"}},
		{reason: "without a directory nothing is marked", args: []string{"mark"}},
		{reason: "nothing is no action", code: misused, errs: "an action is missing"},
		{reason: "nothing after a separator is no action", args: []string{"say", "a", "--"}, code: misused, errs: "an action is missing"},
		{reason: "nothing is done if an action is unknown", args: []string{"say", "a", "--", "dance"}, code: misused, errs: `unknown action "dance"`},
		{reason: "nothing is done if an argument is missing", args: []string{"say", "a", "--", "exit"}, code: misused, errs: "exit takes 1 arguments, but has 0"},
		{reason: "an argument has another form", args: []string{"exit", "now"}, code: failed, errs: "exit: "},
		{reason: "bytes cannot be negative", args: []string{"print", "-1"}, code: failed, errs: `"-1" is no number of bytes`},
	} {
		t.Run(test.reason, func(t *testing.T) {
			c := newContainer(t, nil)
			code, out, errs := c.run(test.args...)
			if code != test.code || out != test.out || !strings.Contains(errs, test.errs) || test.errs == "" && errs != "" {
				t.Errorf("expected code %d, output %q and errors %q, but found %d, %q and %q", test.code, test.out, test.errs, code, out, errs)
			}
			if got := c.read(exportsPath); got != test.exports {
				t.Errorf("expected exports %q, but found %q", test.exports, got)
			}
		})
	}
}

func TestEchoImports(t *testing.T) {
	c := newContainer(t, map[string]string{operation: "RECONCILE", "COLOUR": "red", "SIZE": "xl"})
	c.write(importsPath, `{"a": 1}`)
	c.write(descriptorPath, "no JSON")
	content := c.env[contentPath]
	if err := os.MkdirAll(filepath.Join(content, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(content, "dir", "file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("dir/file", filepath.Join(content, "link")); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := c.run("echo-imports", "COLOUR", "MISSING"); code != 0 {
		t.Fatal(errs)
	}
	env := map[string]any{"COLOUR": "red", operation: "RECONCILE"}
	for _, name := range []string{importsPath, exportsPath, statePath, contentPath, targetPath, descriptorPath} {
		env[name] = c.env[name]
	}
	want := map[string]any{
		"imports": map[string]any{"a": 1.0}, "operation": "RECONCILE", "target": nil, "descriptor": "no JSON",
		"content": map[string]any{"dir/file": "text", "link": "-> dir/file"}, "env": env,
	}
	if diff := cmp.Diff(want, c.exports()); diff != "" {
		t.Errorf("exports (-want +got):\n%s", diff)
	}
}

func TestState(t *testing.T) {
	const size = 12345
	c := newContainer(t, map[string]string{podName: "pod", operation: "DELETE"})
	c.env[markDir] = t.TempDir()
	for range 2 { // the second run finds what the first has left
		code, _, errs := c.run("fill-state", "12345", "--", "symlink-state", "/elsewhere", "--", "symlink-exports", "/nowhere", "--", "mark")
		if code != 0 {
			t.Fatal(errs)
		}
	}
	if info, err := os.Stat(filepath.Join(c.env[statePath], "random")); err != nil || info.Size() != size {
		t.Errorf("expected a file of %d bytes, but found %v, %v", size, info, err)
	}
	for path, want := range map[string]string{filepath.Join(c.env[statePath], "link"): "/elsewhere", c.env[exportsPath]: "/nowhere"} {
		if target, err := os.Readlink(path); err != nil || target != want {
			t.Errorf("expected a link to %s, but found %q, %v", want, target, err)
		}
	}
	marks, err := os.ReadFile(filepath.Join(c.env[markDir], "marks"))
	if mark := "pod=pod operation=DELETE\n"; err != nil || string(marks) != mark+mark {
		t.Errorf("expected %q twice, but found %q, %v", mark, marks, err)
	}
}

// The payload says that the token is of the ServiceAccount shop:robot.
const token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6c2hvcDpyb2JvdCJ9.c2lnbmF0dXJl"

func TestTouchCredentials(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token || r.URL.Path != "/api/v1/namespaces/shop/secrets" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "LEAK": "token: " + token})
	for path, content := range map[string]string{
		"etc/kubeconfig":      `{"token":"` + token + `"}`,
		"etc/other":           "eyJ.no.token",
		"proc/1/environ":      "A=" + token + "\x00",
		"proc/1/root/data/it": token,
		"proc/version":        token, // is the kernel's
	} {
		path = filepath.Join(c.root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, errs := c.run("touch-credentials"); code != 0 {
		t.Fatal(errs)
	}
	got := c.exports()
	want := []any{"$LEAK", c.root + "/etc/kubeconfig", c.root + "/proc/1/environ", c.root + "/proc/1/root/data/it"}
	if diff := cmp.Diff(want, got["tokens"]); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if read := got["read"].([]any); len(read) != 1 || !strings.HasSuffix(read[0].(string), ": /api/v1/namespaces/shop/secrets") {
		t.Errorf("expected that the secrets of the token's namespace are read, but found %q", read)
	}
	refused := map[string]bool{}
	for _, r := range got["refused"].([]any) {
		refused[r.(string)] = true
	}
	for _, want := range []string{"nobody: /api/v1/secrets: 403", "nobody: /api/v1/namespaces/default/secrets: 403"} {
		if !refused[want] {
			t.Errorf("expected %q, but found %v", want, refused)
		}
	}
	if strings.Contains(c.read(exportsPath), token) {
		t.Error("a token was exported")
	}

	c.env[podName] = "mine"
	code, out, errs := c.run("show-credentials", "/api/v1/secrets/$POD_NAME-own")
	if want := `"nobody: /api/v1/secrets/mine-own: 403"`; code != 0 || !strings.Contains(out, want) || strings.Contains(out, token) {
		t.Errorf("expected %s and no token, but found %s, %s", want, out, errs)
	}

	server.Close()
	for _, action := range []string{"touch-credentials", "show-credentials"} {
		if code, _, _ := c.run(action); code != failed {
			t.Errorf("expected that %s fails without an API server, but it has ended with %d", action, code)
		}
	}
}

// container is where a step takes place.
type container struct {
	t    *testing.T
	env  map[string]string
	root string
}

func newContainer(t *testing.T, env map[string]string) *container {
	t.Helper()
	dir, state := t.TempDir(), t.TempDir()
	c := &container{t: t, root: t.TempDir(), env: map[string]string{
		importsPath: dir + "/imports", exportsPath: dir + "/exports", targetPath: dir + "/target", descriptorPath: dir + "/descriptor",
		contentPath: dir + "/content", statePath: state,
	}}
	for name, value := range env {
		c.env[name] = value
	}
	return c
}

func (c *container) run(args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	environ := func() (all []string) {
		for name, value := range c.env {
			all = append(all, name+"="+value)
		}
		return all
	}
	s := step{out: io.Writer(&stdout), env: func(name string) string { return c.env[name] }, environ: environ, root: c.root}
	code = run(s, args, &stderr)
	return code, stdout.String(), stderr.String()
}

func (c *container) write(variable, content string) {
	c.t.Helper()
	if err := os.WriteFile(c.env[variable], []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *container) read(variable string) string {
	c.t.Helper()
	content, err := os.ReadFile(c.env[variable])
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	return string(content)
}

func (c *container) exports() map[string]any {
	c.t.Helper()
	var exports map[string]any
	if err := json.Unmarshal([]byte(c.read(exportsPath)), &exports); err != nil {
		c.t.Fatal(err)
	}
	return exports
}
