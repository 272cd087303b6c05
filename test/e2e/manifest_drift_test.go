package e2e

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestDrift: what somebody changes and deletes on the target is repaired by the schedule. The item says what it was, and a job later that it
// is no more.
func TestDrift(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest"), Config: writeConfig(t, anyConfig+soon+"\n")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	changed, deleted := configMapWith(namespace, "changed", map[string]any{"a": "1"}), configMapWith(namespace, "deleted", nil)
	secret := newManifest("v1", "Secret", namespace, "secret", map[string]any{"data": map[string]any{"password": "b2xkLXBhc3N3b3Jk"}})
	config := configWith(t, map[string]any{"continuousReconcile": map[string]any{"every": "1s"}}, changed, deleted, secret)
	item := withTarget(newItem(namespace, "item", manifestType, config), "my-target")
	suspendAtEnd(t, item)
	item = carryOutFirst(t, item)
	item = waitFinishedAfter(t, item, item.Status.JobID)
	if c := conditionOf(item, managedresource.ConditionDrifted); c.Status != "" {
		t.Errorf("an item that has never drifted has the condition %+v", c)
	}

	history := record(t, item)
	change(t, changed, `{"data":{"a":"9"}}`)
	change(t, secret, `{"data":{"password":"bmV3LXBhc3N3b3Jk"}}`)
	destroy(t, deleted)
	item = waitDrifted(t, item, v1alpha1.ConditionFalse)

	if a, _, _ := unstructured.NestedString(live(t, changed).Object, "data", "a"); a != "1" || live(t, deleted) == nil {
		t.Errorf("expected everything to be repaired, but data.a is %q", a)
	}
	var told strings.Builder // by one job or by several, as the changes fall
	for _, version := range history.upTo(t, item) {
		if c := conditionOf(version, managedresource.ConditionDrifted); c.Status == v1alpha1.ConditionTrue {
			told.WriteString(c.Message + "\n")
		}
	}
	mustMention(t, "the condition", told.String(), "ConfigMap "+namespace+"/changed: data.a",
		"ConfigMap "+namespace+"/deleted was missing", "Secret "+namespace+"/secret: data.password")
	if strings.Contains(told.String(), "cGFzc3dvcm") || strings.Contains(told.String(), "bmV3") {
		t.Errorf("the condition tells what is in a Secret: %s", told.String())
	}
}

// waitDrifted waits until the condition is as it should be, and returns the item.
func waitDrifted(t *testing.T, item *v1alpha1.DeployItem, status v1alpha1.ConditionStatus) *v1alpha1.DeployItem {
	t.Helper()
	return waitFor(t, item, "with Drifted="+string(status), func(i *v1alpha1.DeployItem) bool {
		return conditionOf(i, managedresource.ConditionDrifted).Status == status && i.Status.JobID == i.Status.JobIDFinished
	})
}

// TestKubectlWaitsForDrift: the condition is one for kubectl wait, both when it becomes True and when it becomes False.
func TestKubectlWaitsForDrift(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest"), Config: writeConfig(t, anyConfig+soon+"\n")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	settings := configMapWith(namespace, "settings", map[string]any{"a": "1"})
	config := configWith(t, map[string]any{"continuousReconcile": map[string]any{"every": "1s"}}, settings)
	item := withTarget(newItem(namespace, "item", manifestType, config), "my-target")
	item.Annotations[continuousreconcile.ActiveAnnotation] = "false"
	suspendAtEnd(t, item)
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)

	change(t, settings, `{"data":{"a":"9"}}`)
	item = carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
	wait := func(condition string) {
		t.Helper()
		kubectl(t, "wait", "di", "item", "-n", namespace, "--for", "condition="+condition, "--timeout", patience.String()).expect(t, 0, "condition met")
	}
	wait("Drifted")
	patchMetadata(t, item, map[string]any{"annotations": map[string]any{continuousreconcile.ActiveAnnotation: nil}})
	wait("Drifted=False")
}

// TestDoneIsNotBroughtBack: a Job that has deleted itself is not run again by the schedule, but by the next job that a user sets.
func TestDoneIsNotBroughtBack(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest"), Config: writeConfig(t, anyConfig+soon+"\n")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	once := newManifest("batch/v1", "Job", namespace, "once", map[string]any{"spec": map[string]any{
		"ttlSecondsAfterFinished": int64(0), "template": map[string]any{"spec": map[string]any{
			"restartPolicy": "Never", "containers": []any{map[string]any{"name": "main", "image": "busybox"}},
		}},
	}})
	config := configWith(t, map[string]any{"continuousReconcile": map[string]any{"every": "1s"}}, once)
	item := withTarget(newItem(namespace, "item", manifestType, config), "my-target")
	suspendAtEnd(t, item)
	create(t, item)
	for range 2 {
		setJob(t, item)
		eventually(t, "the Job to be there", func(context.Context) (string, error) {
			if live(t, once) == nil {
				return "it is not", nil
			}
			return "", nil
		})
		// As its controller does, which is not here.
		if err := admin.Delete(t.Context(), live(t, once), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatal(err)
		}
		finished := waitFor(t, item, "finished", func(i *v1alpha1.DeployItem) bool {
			return i.Status.JobID == i.Status.JobIDFinished && i.Status.Phase == v1alpha1.DeployItemPhaseSucceeded
		})
		for range 2 {
			finished = waitFinishedAfter(t, finished, finished.Status.JobID)
			if finished.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || live(t, once) != nil {
				t.Errorf("expected the schedule's job to leave the Job gone, but found %s", describe(finished))
			}
		}
	}
}
