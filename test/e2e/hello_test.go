package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// The plugin author's page: its deployer is dropped into the directory, and its deploy item is carried out.
func TestAuthorsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "plugin-authors.md"))
	if err != nil {
		t.Fatal(err)
	}
	document := regexp.MustCompile(`(?s)kubectl apply -f - <<EOF\n(.*?)\nEOF\n`).FindSubmatch(page)
	if document == nil {
		t.Fatal("docs/plugin-authors.md applies no deploy item")
	}
	item := &v1alpha1.DeployItem{}
	if err := yaml.UnmarshalStrict(document[1], item); err != nil {
		t.Fatal(err)
	}
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "hello"), Standalone: true})
	item.Namespace = newNamespace(t)
	create(t, item)

	item = waitFor(t, item, "Succeeded", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseSucceeded })

	if diff := cmp.Diff(map[string]any{"greeting": "good morning"}, exports(t, item)); diff != "" {
		t.Errorf("exports (-want +got):\n%s", diff)
	}
}
