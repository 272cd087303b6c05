package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestItemsDiff: the command has the plugin ask the target what a job would change, shows nothing of a Secret, and
// writes nothing.
func TestItemsDiff(t *testing.T) {
	plugins := pluginDir(t, "manifest")
	startReadyHost(t, testenv.HostOptions{PluginDir: plugins})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	secret := func(password string) map[string]any {
		data := map[string]any{"stringData": map[string]any{"password": password}}
		return newManifest("v1", "Secret", namespace, "secret", data)
	}
	settings := func(data map[string]any) map[string]any { return configMapWith(namespace, "settings", data) }
	dropped := configMapWith(namespace, "dropped", map[string]any{"x": "y"})
	config := configWith(t, nil, settings(map[string]any{"a": "1"}), dropped, secret("old-one"))
	item := withTarget(newItem(namespace, "item", manifestType, config), "my-target")
	carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
	diff := func(args ...string) printed {
		t.Helper()
		common := []string{"items", "diff", "--kubeconfig", controlPlane.Kubeconfig, "-n", namespace, "--plugin-dir", plugins}
		return pergola(t, append(common, args...)...)
	}
	mark := markAudit(t)
	diff("item").expect(t, 0, "Nothing to change.")

	created := configMapWith(namespace, "new", map[string]any{"z": "z"})
	config = configWith(t, nil, settings(map[string]any{"a": "3"}), secret("new-one"), created)
	changed := withTarget(newItem(namespace, "item", manifestType, config), "my-target")
	changed.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "DeployItem"}
	file := filepath.Join(t.TempDir(), "item.json")
	if err := os.WriteFile(file, marshal(t, changed), 0o600); err != nil {
		t.Fatal(err)
	}
	text := diff("-f", file)
	text.expect(t, 1, "~ update ConfigMap "+namespace+"/settings", `-  a: "1"`, `+  a: "3"`,
		"~ update Secret "+namespace+"/secret", "-  password: '*** (before)'", "+  password: '*** (after)'",
		"+ create ConfigMap "+namespace+"/new", "- delete ConfigMap "+namespace+"/dropped",
		"1 to create, 2 to update, 1 to delete.")
	document := diff("-f", file, "-o", "json")
	document.expect(t, 1, `"action": "delete"`, "***")
	for _, hidden := range []string{"old-one", "new-one", "b2xkLW9uZ", "bmV3LW9uZ"} {
		if strings.Contains(text.stdout+text.stderr+document.stdout+document.stderr, hidden) {
			t.Errorf("the output has %q of a Secret:\n%s\n%s", hidden, text.stdout, document.stdout)
		}
	}

	dryRuns := 0
	for _, r := range requestsSince(t, mark, namespace) {
		switch {
		case r.Verb == "get" || r.Verb == "list":
		case strings.Contains(r.RequestURI, "dryRun=All"):
			dryRuns++
		default:
			t.Errorf("a comparison has written: %s", r)
		}
	}
	if dryRuns == 0 {
		t.Error("expected the API server to be asked by dry runs")
	}
}
