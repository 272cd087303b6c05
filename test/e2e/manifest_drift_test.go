package e2e

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestDrift: what others change and delete on the target is repaired. The condition Drifted says what it was but
// nothing of a Secret, and is one that kubectl can wait for, until the schedule has found that nothing has drifted
// since.
func TestDrift(t *testing.T) {
	config := writeConfig(t, anyConfig+soon+"\n")
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest"), Config: config})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	changed := configMapWith(namespace, "changed", map[string]any{"a": "1"})
	deleted := configMapWith(namespace, "deleted", nil)
	secret := newManifest("v1", "Secret", namespace, "secret",
		map[string]any{"data": map[string]any{"password": "b2xkLXBhc3N3b3Jk"}})
	schedule := map[string]any{"continuousReconcile": map[string]any{"every": "1s"}}
	item := newItem(namespace, "item", manifestType, configWith(t, schedule, changed, deleted, secret))
	withTarget(item, "my-target")
	item.Annotations[continuousreconcile.ActiveAnnotation] = "false"
	suspendAtEnd(t, item)
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)

	change(t, changed, `{"data":{"a":"9"}}`)
	change(t, secret, `{"data":{"password":"bmV3LXBhc3N3b3Jk"}}`)
	deleteObject(t, &unstructured.Unstructured{Object: deleted})
	item = carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
	waitDrifted := func(condition string) {
		t.Helper()
		out := kubectl(t, "wait", "di", "item", "-n", namespace, "--for", "condition="+condition, "--timeout=1m")
		out.expect(t, 0, "condition met")
	}
	waitDrifted("Drifted")
	said := conditionOf(item, managedresource.ConditionDrifted).Message
	mustMention(t, "the condition", said, "ConfigMap "+namespace+"/changed: data.a",
		"ConfigMap "+namespace+"/deleted was missing", "Secret "+namespace+"/secret: data.password")
	if strings.Contains(said, "cGFzc3dvcm") || strings.Contains(said, "bmV3") {
		t.Errorf("the condition tells what is in a Secret: %s", said)
	}

	patchMetadata(t, item, map[string]any{"annotations": map[string]any{continuousreconcile.ActiveAnnotation: nil}})
	waitDrifted("Drifted=False")
	change(t, changed, `{"data":{"a":"9"}}`)
	eventually(t, "the schedule to repair what was changed", func(context.Context) (string, error) {
		if a, _, _ := unstructured.NestedString(live(t, changed).Object, "data", "a"); a != "1" {
			return "data.a is " + a, nil
		}
		return "", nil
	})
	if live(t, deleted) == nil {
		t.Error("what was deleted is not there")
	}
}
