package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// comparison is a deployed item and what is needed to compare it.
type comparison struct {
	item    *v1alpha1.DeployItem
	plugins string
}

// diff runs the command.
func (c *comparison) diff(t *testing.T, args ...string) printed {
	t.Helper()
	return pergola(t, append([]string{"items", "diff", "--kubeconfig", controlPlane.Kubeconfig, "-n", c.item.Namespace, "--plugin-dir", c.plugins}, args...)...)
}

// file writes the item with another configuration, as a user has it in a file, and returns its path.
func (c *comparison) file(t *testing.T, name, config string) string {
	t.Helper()
	item := withTarget(newItem(c.item.Namespace, name, manifestType, config), "my-target")
	item.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "DeployItem"}
	path := filepath.Join(t.TempDir(), "item.json")
	if err := os.WriteFile(path, marshal(t, item), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mustPrint expects an exit code and exactly this text, in which NS stands for the namespace.
func (c *comparison) mustPrint(t *testing.T, found printed, code int, want string) {
	t.Helper()
	text := strings.ReplaceAll(found.stdout, c.item.Namespace, "NS")
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), text); diff != "" || found.code != code {
		t.Errorf("expected exit code %d, but found %d, and (-want +got):\n%s\nstandard error:\n%s", code, found.code, diff, found.stderr)
	}
}

// TestItemsDiff shows what a user sees of an item that is deployed.
func TestItemsDiff(t *testing.T) {
	c := &comparison{plugins: pluginDir(t, "manifest")}
	startReadyHost(t, testenv.HostOptions{PluginDir: c.plugins})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	secret := func(password string) map[string]any {
		return newManifest("v1", "Secret", namespace, "secret", map[string]any{"stringData": map[string]any{"user": "me", "password": password}})
	}
	settings := func(data map[string]any) map[string]any { return configMapWith(namespace, "settings", data) }
	was, dropped := settings(map[string]any{"a": "1", "b": "2"}), configMapWith(namespace, "dropped", map[string]any{"x": "y"})
	c.item = withTarget(newItem(namespace, "item", manifestType, configWith(t, nil, was, dropped, secret("old-one"))), "my-target")
	c.item = carryOut(t, c.item, v1alpha1.DeployItemPhaseSucceeded)
	mark := auditMark(t)

	c.mustPrint(t, c.diff(t, "item"), 0, "Nothing to change.\n")

	another := c.file(t, "item", configWith(t, nil,
		settings(map[string]any{"a": "3"}), secret("new-one"), configMapWith(namespace, "new", map[string]any{"z": "z"})))
	c.mustPrint(t, c.diff(t, "-f", another), 1, `
~ update ConfigMap NS/settings
    @@ -1,7 +1,6 @@
     apiVersion: v1
     data:
    -  a: "1"
    -  b: "2"
    +  a: "3"
     kind: ConfigMap
     metadata:
       labels:
~ update Secret NS/secret
    @@ -1,6 +1,6 @@
     apiVersion: v1
     data:
    -  password: '*** (before)'
    +  password: '*** (after)'
       user: '***'
     kind: Secret
     metadata:
+ create ConfigMap NS/new
    @@ -0,0 +1,10 @@
    +apiVersion: v1
    +data:
    +  z: z
    +kind: ConfigMap
    +metadata:
    +  labels:
    +    manifest.deployer.landscaper.gardener.cloud/deployitem: item
    +    pergola.dev/deployitem: NS.item
    +  name: new
    +  namespace: NS
- delete ConfigMap NS/dropped
    @@ -1,10 +0,0 @@
    -apiVersion: v1
    -data:
    -  x: "y"
    -kind: ConfigMap
    -metadata:
    -  labels:
    -    manifest.deployer.landscaper.gardener.cloud/deployitem: item
    -    pergola.dev/deployitem: NS.item
    -  name: dropped
    -  namespace: NS
1 to create, 2 to update, 1 to delete.
`)
	whole := c.diff(t, "-f", another, "-o", "json")
	whole.expect(t, 1, `"action": "delete"`, "***")
	for _, hidden := range []string{"old-one", "new-one", "b2xkLW9uZ", "bmV3LW9uZ"} {
		if strings.Contains(whole.stdout+whole.stderr, hidden) {
			t.Errorf("the output has %q of a Secret:\n%s", hidden, whole.stdout)
		}
	}

	failing := c.diff(t, "-f", c.file(t, "item", configWith(t, nil, settings(map[string]any{"not a key": "x"}), dropped, secret("old-one"))))
	failing.expect(t, 2, "! fail ConfigMap "+namespace+"/settings: ", "a valid config key must", "1 to fail.", `a job of the DeployItem "`+namespace+`/item" would fail`)
	if strings.Contains(failing.stdout, "@@") {
		t.Errorf("what cannot be changed looks as if it would be:\n%s", failing.stdout)
	}
	c.diff(t, "-f", c.file(t, "stranger", configWith(t, nil, dropped))).
		expect(t, 1, `~ update ConfigMap `+namespace+`/dropped: it is taken over from the deploy item "`+namespace+`.item"`, "0 to create, 1 to update, 0 to delete.")
	c.checkNothingWritten(t, mark)

	change(t, was, `{"data":{"a":"9"}}`)
	c.mustPrint(t, c.diff(t, "item"), 1, `
~ update ConfigMap NS/settings
    @@ -1,6 +1,6 @@
     apiVersion: v1
     data:
    -  a: "9"
    +  a: "1"
       b: "2"
     kind: ConfigMap
     metadata:
0 to create, 1 to update, 0 to delete.
`)
}

// checkNothingWritten checks that nothing but dry runs was sent since a mark in the audit log.
func (c *comparison) checkNothingWritten(t *testing.T, mark int64) {
	t.Helper()
	dryRuns := 0
	for _, r := range requestsSince(t, mark, c.item.Namespace) {
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

// TestItemsDiffSaysWhatIsWrong: what a user does wrong is said.
func TestItemsDiffSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	c := &comparison{item: newItem(namespace, "item", manifestType, configWith(t, nil)), plugins: pluginDir(t, "mock")}
	create(t, withTarget(c.item, "my-target"))
	c.diff(t).expect(t, 2, "expected the name of one DeployItem, or a file with -f")
	c.diff(t, "item", "-f", "item.yaml").expect(t, 2, `found both "item" and "item.yaml"`)
	c.diff(t, "-f", "/nowhere.yaml").expect(t, 2, "read DeployItem", "/nowhere.yaml")
	c.diff(t, "nobody").expect(t, 2, `there is no DeployItem "nobody" in the namespace "`+namespace+`"`)
	c.diff(t, "item").expect(t, 2, `/my-target": there is no such Target`)
	createTarget(t, namespace, "my-target")
	c.diff(t, "item", "--plugin-dir", "/nowhere").expect(t, 2, "/nowhere", "say with --plugin-dir where those of the host are")
	c.diff(t, "item").expect(t, 2, `no plugin serves the type "`+manifestType+`"`, "--plugin-dir")
}
