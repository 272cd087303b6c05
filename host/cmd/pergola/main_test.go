package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	strictyaml "sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// bare is the kubeconfig of an API server without our CustomResourceDefinitions.
var bare []byte

func TestMain(m *testing.M) {
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
	assets, err := testenv.Assets(context.Background())
	if err != nil {
		return 1, err
	}
	env := &envtest.Environment{BinaryAssetsDirectory: assets}
	defer func() {
		if stopErr := env.Stop(); err == nil {
			err = stopErr
		}
	}()
	if _, err := env.Start(); err != nil {
		return 1, err
	}
	bare = env.KubeConfig
	return m.Run(), nil
}

// pergola runs the command in this process and returns what it prints.
func pergola(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCRDs(t *testing.T) {
	out, err := pergola(t, "crds")
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
	want := []string{
		"landscaper.gardener.cloud/Context", "landscaper.gardener.cloud/DeployerRegistration", "landscaper.gardener.cloud/DeployItem",
		"landscaper.gardener.cloud/SyncObject", "landscaper.gardener.cloud/Target",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
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
	t.Setenv("KUBECONFIG", "")
	lacksCRDs := file("bare", string(bare))
	nobody := file("nobody", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
		clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: u, user: {}}]}`)
	garbage := file("garbage", "{")
	cases := map[string]struct {
		reason string
		args   []string
		want   []string
	}{
		"log level":          {reason: "names flag, values and what was found", args: []string{"host", "--log-level", "loud"}, want: []string{"--log-level", "debug, info, warn or error", `"loud"`}},
		"log format":         {reason: "names flag, values and what was found", args: []string{"host", "--log-format", "xml"}, want: []string{"--log-format", "json or text", `"xml"`}},
		"argument":           {reason: "an argument too many", args: []string{"host", "extra"}, want: []string{"extra"}},
		"empty identity":     {reason: "names the flag", args: []string{"host", "--identity", ""}, want: []string{"--identity", "it is empty"}},
		"address":            {reason: "names the flag", args: []string{"host", "--listen-address", "nowhere"}, want: []string{"--listen-address", ":8080", `"nowhere"`}},
		"missing config":     {reason: "names the file", args: []string{"host", "--config", dir + "/nowhere"}, want: []string{"read the host configuration", dir + "/nowhere", "no such file"}},
		"no kubeconfig":      {reason: "says which flag is missing", args: []string{"host"}, want: []string{"--kubeconfig", "$KUBECONFIG"}},
		"missing kubeconfig": {reason: "names the file", args: []string{"host", "--kubeconfig", dir + "/nowhere"}, want: []string{"find the cluster", dir + "/nowhere", "no such file"}},
		"garbage kubeconfig": {reason: "names the file", args: []string{"host", "--kubeconfig", garbage}, want: []string{"find the cluster", garbage}},
		"unreachable":        {reason: "names the address", args: []string{"host", "--kubeconfig", nobody}, want: []string{"connect to the cluster", "127.0.0.1:1", "connection refused"}},
		"no definitions":     {reason: "says how to install them", args: []string{"host", "--kubeconfig", lacksCRDs, "--plugin-dir", dir}, want: []string{"`pergola crds | kubectl apply -f -`"}},
		"no definitions, standalone": {
			reason: "says how to install them", args: []string{"host", "--standalone", "--kubeconfig", lacksCRDs, "--plugin-dir", dir},
			want: []string{"`pergola crds | kubectl apply -f -`"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
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
