package e2e

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestAuthorsPage: the deploy item of the page for plugin authors is carried out by the plugin of that page,
// without a cluster and by a host, which both attach to one that runs already, and which it outlives.
func TestAuthorsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "plugin-authors.md"))
	if err != nil {
		t.Fatal(err)
	}
	document := regexp.MustCompile(`(?s)kubectl apply -f - <<EOF\n(.*?)\nEOF\n`).FindSubmatch(page)
	if document == nil {
		t.Fatal("docs/plugin-authors.md applies no deploy item")
	}
	item, file := &v1alpha1.DeployItem{}, filepath.Join(t.TempDir(), "item.yaml")
	if err := yaml.UnmarshalStrict(document[1], item); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, document[1], 0o600); err != nil {
		t.Fatal(err)
	}
	hello := filepath.Join(binaries, "test", "hello")
	mock := filepath.Join(binaries, "plugins", "mock")
	pergola(t, "plugins", "schema", mock).expect(t, 0, `"$schema"`)
	with := []string{"--item", file}
	pergola(t, append(with, "plugins", "run", hello)...).expect(t, 0, "succeeded", `exports {"greeting":"good morning"}`)
	pergola(t, append(with, "plugins", "run", mock)...).expect(t, 1, mockType)

	address := startAttachable(t, hello)
	pergola(t, append(with, "plugins", "run", "--attach", address)...).expect(t, 0, "succeeded")
	pergola(t, append(with, "plugins", "verify", "--attach", address)...).expect(t, 0, address+": good")
	startReadyHost(t, testenv.HostOptions{
		PluginDir: pluginDir(t, "mock"), Standalone: true, Args: []string{"--attach", address},
	})
	item.Namespace = newNamespace(t)
	create(t, item)
	item = waitFor(t, item, "Succeeded", func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == succeeded
	})
	if diff := cmp.Diff(map[string]any{"greeting": "good morning"}, exports(t, item)); diff != "" {
		t.Errorf("exports (-want +got):\n%s", diff)
	}
}

// startAttachable starts a plugin as in a debugger, and returns where to attach to it. It ends with the test, and
// must do so in order.
func startAttachable(t *testing.T, program string) (address string) {
	t.Helper()
	temporary, err := os.MkdirTemp("/tmp", "run") //nolint:usetesting // that of tests is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	plugin := exec.CommandContext(context.WithoutCancel(t.Context()), program, "attachable")
	plugin.Env = append(os.Environ(), "TMPDIR="+temporary)
	stdout, err := plugin.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(plugin.Process.Signal(syscall.SIGTERM), plugin.Wait(), os.Remove(temporary)); err != nil {
			t.Errorf("the plugin did not end in order: %v", err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	address = regexp.MustCompile(`unix:///\S+`).FindString(line)
	if err != nil || address == "" {
		t.Fatalf("the plugin does not say how to attach to it: %q, %v", line, err)
	}
	return address
}
