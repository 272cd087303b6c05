// Package commandtest runs commands in tests, and has the inputs of several of these tests.
package commandtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
)

// The first lines of documents.
const (
	ConfigHead = "apiVersion: host.pergola.dev/v1alpha1\nkind: HostConfiguration\n"
	ItemHead   = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: DeployItem\n"
)

// Version of the programs in tests.
const Version = "0.0.0-test"

// Main runs the tests of a package, or serves a plugin under the file name of the test binary.
func Main(m *testing.M, plugins map[string]func(), runTests func(tests interface{ Run() int }) int) {
	if serve, ok := plugins[filepath.Base(os.Args[0])]; ok {
		serve()
		return
	}
	ctrl.SetLogger(logr.Discard()) // controller-runtime warns without a logger
	code, err := runInShortDir(m, runTests)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runInShortDir runs tests with a short path for temporary files: names of sockets are short.
func runInShortDir(m *testing.M, runTests func(tests interface{ Run() int }) int) (code int, err error) {
	temporary, err := os.MkdirTemp("/tmp", "cmd")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	if err := os.Setenv("TMPDIR", temporary); err != nil {
		return 1, err
	}
	return runTests(m), nil
}

// Program returns a new program with the commands under test.
type Program func() *cobra.Command

// Of returns the program with some commands.
func Of(commands ...func(version string) *cobra.Command) Program {
	return func() *cobra.Command {
		all := make([]*cobra.Command, 0, len(commands))
		for _, newCommand := range commands {
			all = append(all, newCommand(Version))
		}
		return cli.NewRoot(cli.Name, Version, all...)
	}
}

// Run runs a command in this process and returns its output on both streams.
func (p Program) Run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return p.RunIn(t.Context(), &Buffer{}, args...)
}

// RunIn runs a command with an output for both streams, and returns the output.
func (p Program) RunIn(ctx context.Context, out *Buffer, args ...string) (string, error) {
	cmd := p()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(out)
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

// ErrorCase is a failing command line, in words, and parts of its error. The type has no name of its own, so that
// tables need no keys.
type ErrorCase = struct {
	Reason, Command string
	Want            []string
}

// ExpectErrors expects an error of one line and no other output.
func (p Program) ExpectErrors(t *testing.T, code int, cases ...ErrorCase) {
	t.Helper()
	for _, tc := range cases {
		out, err := p.Run(t, strings.Split(tc.Command, " ")...)
		if found := cli.Code(err); found != code || out != "" || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: expected the code %d and one sentence, but found %d, %v, %q", tc.Reason, code, found, err, out)
			continue
		}
		for _, text := range tc.Want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: expected %q in %q", tc.Reason, text, err)
			}
		}
	}
}

// Buffer collects the output of several goroutines.
type Buffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// WriteFile writes a file into a new directory and returns its path.
func WriteFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ExpectGolden compares a text with a file in testdata. UPDATE_GOLDEN=1 rewrites the file.
func ExpectGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// Kubeconfig writes a kubeconfig for a server and returns its path.
func Kubeconfig(t *testing.T, server string) string {
	t.Helper()
	return WriteFile(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: c,
		contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "`+server+`"}}]}`)
}

// WithoutDefinitions starts an API server without resources and returns its kubeconfig.
func WithoutDefinitions(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kinds := map[string]string{"/api": "APIVersions", "/apis": "APIGroupList"}
		if kind, ok := kinds[r.URL.Path]; ok {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"apiVersion": "v1", "kind": %q}`, kind)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return Kubeconfig(t, server.URL)
}
