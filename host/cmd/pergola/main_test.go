package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	strictyaml "sigs.k8s.io/yaml"
)

// The test binary is also the plugins of these tests: the name of the file says which.
func TestMain(m *testing.M) {
	if serve, ok := testPlugins()[filepath.Base(os.Args[0])]; ok {
		serve()
		return
	}
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	// Short, because sockets go there.
	temporary, err := os.MkdirTemp("/tmp", "cmd")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	if err := os.Setenv("TMPDIR", temporary); err != nil {
		return 1, err
	}
	return controlPlane.RunTests(m), nil
}

// pergola runs the command in this process and returns what it prints.
func pergola(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out sharedBuffer // plugins log while the command prints
	cmd := newCommand(ownName)
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCRDs(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		"crds":                              {"contexts", "deployerregistrations", "deployitems", "syncobjects", "targets"},
		"crds --only deployerregistrations": {"deployerregistrations"}, // which a Landscaper lacks
	} {
		out, err := pergola(t, strings.Fields(args)...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, text := range strings.Split(out, "\n---\n") {
			definition := &apiextensionsv1.CustomResourceDefinition{}
			if err := strictyaml.UnmarshalStrict([]byte(text), definition); err != nil {
				t.Fatal(err)
			}
			got = append(got, definition.Spec.Names.Plural)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}

// errorCase is a command, in words, that fails, and parts of its error.
type errorCase struct {
	reason, command string
	want            []string
}

// expectErrors runs commands that print nothing but an error of one line.
func expectErrors(t *testing.T, code int, cases ...errorCase) {
	t.Helper()
	for _, tc := range cases {
		out, err := pergola(t, strings.Split(tc.command, " ")...)
		if found := codeOf(err); found != code || out != "" || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: expected the code %d and one sentence, but found %d, %v, %q", tc.reason, code, found, err, out)
			continue
		}
		for _, text := range tc.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: expected %q in %q", tc.reason, text, err)
			}
		}
	}
}

// withoutCRDs starts an API server that has no resources, and returns its kubeconfig.
func withoutCRDs(t *testing.T) string {
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
	return kubeconfigFor(t, server.URL)
}

func kubeconfigFor(t *testing.T, server string) string {
	t.Helper()
	return writeFile(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: c,
		contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "`+server+`"}}]}`)
}

// TestNonsenseIsRefused: what the command does not know is an error, with a code of its own, and never the help and
// success.
func TestNonsenseIsRefused(t *testing.T) {
	t.Parallel()
	expectErrors(t, exitFailure, []errorCase{
		{"no such command", "nonsense", []string{`there is no command "pergola nonsense"`, "--help"}},
		{"a slip of the pen", "item", []string{`"pergola item"`, "did you mean items?"}},
		{"no such command for items", "items nonsense", []string{`"pergola items nonsense"`, "--help"}},
		{"a slip of the pen below items", "items dif a", []string{"did you mean diff?"}},
		{"no such shell", "completion nonsense", []string{`"pergola completion nonsense"`}},
		{"no such flag", "plugins list --nonsense", []string{"--nonsense"}},
		{"no such flag before a command", "--nonsense", []string{"--nonsense"}},
		{"no such format", "plugins list -o xml", []string{"-o, --output", "text, json, wide or yaml", "xml"}},
		{"no such colour", "items tree a --color x", []string{"auto, always or never"}},
		{"an argument too many", "crds nonsense", []string{"nonsense"}},
		{"another argument too many", "host nonsense", []string{"nonsense"}},
		{"no such definition", "crds --only targets,roses", []string{"--only", "contexts, deploy", `"roses"`}},
		{"no item", "items show", []string{"expected ITEM, but found nothing", "pergola items show --help"}},
		{"two files", "config check a b", []string{`expected FILE, but found 2 arguments: ["a" "b"]`}},
		{"no file or type", "plugins schema", []string{"expected FILE [TYPE], but found nothing"}},
		{"which plugin?", "plugins verify", []string{"expected one plugin, or --attach"}},
		{"two plugins", "plugins run mock --attach unix:///a", []string{`both "mock" and --attach`}},
	}...)
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "host.yaml", configHead+"workers: 5\n")
	out, err := pergola(t, "config", "check", file)
	if err != nil || out != file+" is a HostConfiguration that a host can use\n" {
		t.Errorf("found %q, %v", out, err)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if out, err := pergola(t, args...); err != nil || out != "pergola version "+version+"\n" {
			t.Errorf("%v: expected the version, but found %q, %v", args, out, err)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"/usr/bin/pergola": "pergola", "kubectl-pergola2": "pergola",
		"kubectl-pergola": "kubectl pergola", "/home/me/bin/kubectl-pergola.exe": "kubectl pergola",
	} {
		if got := displayName(name); got != want {
			t.Errorf("%s: expected %q, but found %q", name, want, got)
		}
	}
	for _, args := range [][]string{{}, {"items"}, {"plugins"}, {"items", "diff", "--help"}} {
		var out bytes.Buffer
		cmd := newCommand("kubectl pergola")
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Errorf("%v: expected help, but found: %v", args, err)
		}
		usage := strings.Join(append([]string{"kubectl pergola"}, args[:max(0, len(args)-1)]...), " ")
		if !strings.Contains(out.String(), usage) {
			t.Errorf("%v: expected %q in %s", args, usage, out.String())
		}
		if strings.Contains(out.String(), "\n  pergola ") {
			t.Errorf("%v: expected no other name of the command in %s", args, out.String())
		}
	}
}

func TestConclude(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for _, tc := range []struct {
		reason string
		err    error
		code   int
		told   string
	}{
		{"all is well", nil, 0, ""},
		{"an error is 1", no, 1, "error: no\n"},
		{"several are told one by one", errors.Join(no, errors.New("never")), 1, "error: no\nerror: never\n"},
		{"another code", fmt.Errorf("diff: %w", &exitError{code: 2, err: no}), 2, "error: diff: no\n"},
		{"a code says it all", &exitError{code: 1}, 1, ""},
	} {
		var out bytes.Buffer
		if code := conclude(&out, tc.err); code != tc.code || out.String() != tc.told {
			t.Errorf("%s: expected %d and %q, but found %d and %q", tc.reason, tc.code, tc.told, code, out.String())
		}
	}
}

// How a manager starts and stops is not what the log is read for at level info; its errors are.
func TestManagerIsQuiet(t *testing.T) {
	plane, _ := controlPlane.ForTest(t)
	var out bytes.Buffer
	mgr, _, err := newManager(plane.Config, time.Second, slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	mgr.GetLogger().Info("starting")
	mgr.GetLogger().Error(errors.New("no"), "failed")
	if got := out.String(); strings.Contains(got, "starting") || !strings.Contains(got, "failed") {
		t.Errorf("expected the error alone, but found %s", got)
	}
}
