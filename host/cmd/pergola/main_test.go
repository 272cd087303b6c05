package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
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
	"k8s.io/apimachinery/pkg/util/yaml"
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
	var out bytes.Buffer
	cmd := newCommand(ownName)
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCRDs(t *testing.T) {
	want := []string{
		"landscaper.gardener.cloud/Context", "landscaper.gardener.cloud/DeployerRegistration", "landscaper.gardener.cloud/DeployItem",
		"landscaper.gardener.cloud/SyncObject", "landscaper.gardener.cloud/Target",
	}
	if diff := cmp.Diff(want, printedKinds(t)); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	want = []string{"landscaper.gardener.cloud/DeployerRegistration"}
	if diff := cmp.Diff(want, printedKinds(t, "--only", "deployerregistrations")); diff != "" {
		t.Errorf("kinds that a Landscaper lacks (-want +got):\n%s", diff)
	}
}

// printedKinds are the kinds that "pergola crds" prints definitions of.
func printedKinds(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := pergola(t, append([]string{"crds"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(out)))
	var kinds []string
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := strictyaml.UnmarshalStrict(document, crd); err != nil {
			t.Fatal(err)
		}
		if crd.APIVersion != "apiextensions.k8s.io/v1" || crd.Kind != "CustomResourceDefinition" {
			t.Errorf("expected a CustomResourceDefinition, but found %s %s", crd.APIVersion, crd.Kind)
		}
		kinds = append(kinds, crd.Spec.Group+"/"+crd.Spec.Names.Kind)
	}
	return kinds
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
	return writeFile(t, "bare", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
		clusters: [{name: c, cluster: {server: "`+server.URL+`"}}]}`)
}

func TestErrorsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("HOME", dir)
	lacksCRDs := withoutCRDs(t)
	nobody := file("nobody", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
		clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: u, user: {}}]}`)
	const unreachable = "connect to the cluster: the API server http://127.0.0.1:1 cannot be reached: connect: connection refused"
	garbage := file("garbage", "{")
	cases := map[string]struct {
		reason string
		env    string // $KUBECONFIG
		args   []string
		want   []string
	}{
		"log level":      {reason: "names flag, values and what was found", args: []string{"host", "--log-level", "loud"}, want: []string{"--log-level", "debug, info, warn or error", `"loud"`}},
		"log format":     {reason: "names flag, values and what was found", args: []string{"host", "--log-format", "xml"}, want: []string{"--log-format", "json or text", `"xml"`}},
		"argument":       {reason: "an argument too many", args: []string{"host", "extra"}, want: []string{"extra"}},
		"empty identity": {reason: "names the flag", args: []string{"host", "--identity", ""}, want: []string{"--identity", "expected 1 to 253 printable characters"}},
		"address":        {reason: "names the flag", args: []string{"host", "--listen-address", "nowhere"}, want: []string{"--listen-address", ":8080", `"nowhere"`}},
		"missing config": {reason: "names the file", args: []string{"host", "--config", dir + "/nowhere"}, want: []string{"read the host configuration", dir + "/nowhere", "no such file"}},
		"no kubeconfig":  {reason: "says which flag is missing", args: []string{"host"}, want: []string{"--kubeconfig", "$KUBECONFIG"}},
		"missing $KUBECONFIG": {
			reason: "names the file", env: dir + "/nowhere", args: []string{"host"}, want: []string{"find the cluster", dir + "/nowhere", "--kubeconfig"},
		},
		"missing kubeconfig": {reason: "names the file", args: []string{"host", "--kubeconfig", dir + "/nowhere"}, want: []string{"find the cluster", dir + "/nowhere", "no such file"}},
		"garbage kubeconfig": {reason: "names the file", args: []string{"host", "--kubeconfig", garbage}, want: []string{"find the cluster", garbage}},
		"unreachable":        {reason: "names the address", args: []string{"host", "--kubeconfig", nobody}, want: []string{unreachable}},
		"unreachable, items": {reason: "says the same", args: []string{"items", "list", "--kubeconfig", nobody}, want: []string{unreachable}},
		"no definitions":     {reason: "says how to install them", args: []string{"host", "--kubeconfig", lacksCRDs, "--plugin-dir", dir}, want: []string{"`pergola crds | kubectl create -f -`"}},
		"no definitions, standalone": {
			reason: "says how to install them", args: []string{"host", "--standalone", "--kubeconfig", lacksCRDs, "--plugin-dir", dir},
			want: []string{"`pergola crds | kubectl create -f -`"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tc.env)
			out, err := pergola(t, tc.args...)
			if err == nil || out != "" {
				t.Fatalf("%s: expected an error and nothing else, but found %v, %q", tc.reason, err, out)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("expected one sentence, but found %q", err)
			}
			for _, text := range tc.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%s: expected %q in %q", tc.reason, text, err)
				}
			}
		})
	}
}

// TestNonsenseIsRefused: what the command does not know is an error, with a code of its own, and never the help and success.
func TestNonsenseIsRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason string
		args   []string
		want   []string
	}{
		{reason: "no such command", args: []string{"nonsense"}, want: []string{`there is no command "pergola nonsense"`, "--help"}},
		{reason: "a slip of the pen", args: []string{"item"}, want: []string{`"pergola item"`, "did you mean items?"}},
		{reason: "no such command for items", args: []string{"items", "nonsense"}, want: []string{`"pergola items nonsense"`, "--help"}},
		{reason: "a slip of the pen below items", args: []string{"items", "dif", "a"}, want: []string{"did you mean diff?"}},
		{reason: "no such command for plugins", args: []string{"plugins", "nonsense"}, want: []string{`"pergola plugins nonsense"`}},
		{reason: "no such shell", args: []string{"completion", "nonsense"}, want: []string{`"pergola completion nonsense"`}},
		{reason: "no such flag", args: []string{"plugins", "list", "--nonsense"}, want: []string{"--nonsense"}},
		{reason: "no such flag before a command", args: []string{"--nonsense"}, want: []string{"--nonsense"}},
		{reason: "no such format", args: []string{"plugins", "list", "-o", "nonsense"}, want: []string{"-o, --output", "text, json, wide or yaml"}},
		{reason: "no such colour", args: []string{"items", "tree", "a", "--color", "x"}, want: []string{"auto, always or never"}},
		{reason: "an argument too many", args: []string{"crds", "nonsense"}, want: []string{"nonsense"}},
		{reason: "no such definition", args: []string{"crds", "--only", "targets,roses"}, want: []string{"--only", "contexts, deployerregistrations, ", `"roses"`}},
		{reason: "no item", args: []string{"items", "show"}, want: []string{"expected ITEM, but found nothing", "pergola items show --help"}},
		{reason: "no file", args: []string{"config", "check"}, want: []string{"expected FILE, but found nothing"}},
		{reason: "two files", args: []string{"config", "check", "a", "b"}, want: []string{`expected FILE, but found 2 arguments: ["a" "b"]`}},
		{reason: "no file or type", args: []string{"plugins", "schema"}, want: []string{"expected FILE [TYPE], but found nothing"}},
	} {
		out, err := pergola(t, tc.args...)
		if code := codeOf(err); code != exitFailure || out != "" {
			t.Errorf("%s: expected the code %d and no output, but found %d, %q", tc.reason, exitFailure, code, out)
		}
		for _, text := range tc.want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: expected %q in: %v", tc.reason, text, err)
			}
		}
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
		"/usr/bin/pergola": "pergola", "kubectl-pergola": "kubectl pergola", "/home/me/bin/kubectl-pergola.exe": "kubectl pergola", "kubectl-pergola2": "pergola",
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
		if usage := strings.Join(append([]string{"kubectl pergola"}, args[:max(0, len(args)-1)]...), " "); !strings.Contains(out.String(), usage) {
			t.Errorf("%v: expected %q in %s", args, usage, out.String())
		}
		if strings.Contains(out.String(), "\n  pergola ") {
			t.Errorf("%v: expected no other name of the command in %s", args, out.String())
		}
	}
}

func TestConclude(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason string
		err    error
		code   int
		told   string
	}{
		{reason: "all is well"},
		{reason: "an error is 1", err: errors.New("no"), code: 1, told: "error: no\n"},
		{reason: "several are told one by one", err: errors.Join(errors.New("no"), errors.New("never")), code: 1, told: "error: no\nerror: never\n"},
		{reason: "another code", err: fmt.Errorf("diff: %w", &exitError{code: 2, err: errors.New("no")}), code: 2, told: "error: diff: no\n"},
		{reason: "a code says it all", err: &exitError{code: 1}, code: 1},
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
	mgr, err := newManager(plane.Config, time.Second, slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	mgr.GetLogger().Info("starting")
	mgr.GetLogger().Error(errors.New("no"), "failed")
	if got := out.String(); strings.Contains(got, "starting") || !strings.Contains(got, "failed") {
		t.Errorf("expected the error alone, but found %s", got)
	}
}

func TestIdentity(t *testing.T) {
	t.Setenv("MY_POD_NAME", "pergola-0")
	if got := defaultIdentity(); got != "pergola-0" {
		t.Errorf("expected the pod's name, but found %q", got)
	}
	t.Setenv("MY_POD_NAME", "")
	if defaultIdentity() == "" {
		t.Error("a host has an identity outside of a pod, too")
	}
}
