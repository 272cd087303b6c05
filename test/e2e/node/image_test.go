package node

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// page shows how the image is run and how plugins get into it.
const page = "docs/operators-guide.md"

var (
	yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	title     = regexp.MustCompile(`\A# ([a-z-]+\.yaml)\n`)
)

// TestHost: the image runs as the page has it, where Pods are restricted, with a root file system that nobody can
// write to, and a plugin of somebody else's comes to it in the ways of the page.
// Rule (SECURITY.md#other-users-of-the-hosts-namespace): The host runs with a read-only root file system.
func TestHost(t *testing.T) { //nolint:paralleltest // there must be no other host
	dir := writePage(t)
	relabel := func(ctx context.Context, label string) {
		if _, err := run(ctx, "kubectl", "label", "namespace", hostNamespace, label); err != nil {
			t.Error(err)
		}
	}
	relabel(t.Context(), "pod-security.kubernetes.io/enforce=restricted")
	t.Cleanup(func() { relabel(context.WithoutCancel(t.Context()), "pod-security.kubernetes.io/enforce-") })
	for _, patch := range []string{"", "init-container.yaml", "image-volume-and-others.yaml"} {
		t.Run("with "+patch, func(t *testing.T) {
			w := newWorld(t)
			t.Cleanup(func() {
				ctx := context.WithoutCancel(t.Context())
				explain(ctx, t, hostNamespace)
				_, err := run(ctx, "kubectl", "delete", "deployment", "pergola", "-n", hostNamespace, "--cascade=foreground")
				if err != nil {
					t.Error(err)
				}
			})
			w.run("kubectl", "apply", "-f", filepath.Join(dir, "deployment.yaml"))
			if patch != "" {
				w.run("kubectl", "patch", "deployment", "pergola", "-n", hostNamespace, "--patch-file", filepath.Join(dir, patch))
			}
			w.awaitReplicas(hostNamespace, "pergola", 1)
			exports := w.succeedAlone("mock", object{
				"apiVersion": "mock.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
				"export": object{"answer": 42},
			})
			if exports["answer"] != 42.0 {
				t.Errorf("expected the answer, but found %v", exports)
			}
			if patch != "" {
				w.greet()
			}
		})
	}
}

// greet has the plugin of somebody else's carry out an item.
func (w *world) greet() {
	w.Helper()
	exports := w.succeedAlone("hello", object{
		"apiVersion": "example.org/v1", "kind": "HelloConfiguration", "greeting": "good morning",
	})
	if exports["greeting"] != "good morning" {
		w.Errorf("expected the greeting, but found %v", exports)
	}
}

// writePage writes the files of the page, with the image that the tests have in the place of Pergola's, and returns
// their directory.
func writePage(t *testing.T) (dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.Root(), page))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		name := "deployment.yaml" // the one that has no name on the page
		if found := title.FindStringSubmatch(block[1]); found != nil {
			name = found[1]
		}
		document := strings.ReplaceAll(block[1], "registry.example.org/team/pergola:v1.2.3", hostImage)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
