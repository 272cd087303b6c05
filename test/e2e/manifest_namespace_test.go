package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestNamespaceOfObjectsIsDeleted: the cluster of the tests has no controller that empties a namespace and lets it go; the test does it.
func TestNamespaceOfObjectsIsDeleted(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	for name, c := range map[string]struct {
		reason string
		own    bool // the item manages the namespace, too
		then   func(t *testing.T, item *v1alpha1.DeployItem, inner string, object map[string]any)
	}{
		"job": {
			reason: "a job creates nothing in it while it goes, says what to do, and goes on when there is a new one",
			then: func(t *testing.T, item *v1alpha1.DeployItem, inner string, object map[string]any) {
				job := setJob(t, item)
				waitLastError(t, item, "namespace "+inner+" of target cluster")
				mustMention(t, "the error", waitLastError(t, item, "is being deleted").Status.LastError.Message, "ConfigMap "+inner+"/a", "wait until it is gone")
				finalizeNamespace(t, inner)
				waitLastError(t, item, "create it, or add it to the manifests")
				create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner}})
				mustSucceedWith(t, item, job, object)
			},
		},
		"job-with-namespace": {
			reason: "an item that brings the namespace waits until it is gone, and makes it again",
			own:    true,
			then: func(t *testing.T, item *v1alpha1.DeployItem, inner string, object map[string]any) {
				job := setJob(t, item)
				waitReconciling(t, item, "Namespace "+inner+", which is being deleted, to be gone before it is created again")
				finalizeNamespace(t, inner)
				mustSucceedWith(t, item, job, object)
			},
		},
		"deletion": {
			reason: "what goes with the namespace is gone",
			then: func(t *testing.T, item *v1alpha1.DeployItem, inner string, _ map[string]any) {
				deleteObject(t, item)
				setJob(t, item)
				waitGone(t, item)
				finalizeNamespace(t, inner)
			},
		},
		"deletion-afterwards": {
			reason: "what was in a namespace that is gone is gone",
			then: func(t *testing.T, item *v1alpha1.DeployItem, inner string, _ map[string]any) {
				finalizeNamespace(t, inner)
				deleteObject(t, item)
				setJob(t, item)
				waitGone(t, item)
			},
		},
		"deletion-with-namespace": {
			reason: "an item that brings the namespace waits until it is gone, and says what for",
			own:    true,
			then: func(t *testing.T, item *v1alpha1.DeployItem, inner string, _ map[string]any) {
				deleteObject(t, item)
				setJob(t, item)
				waitReconciling(t, item, "Namespace "+inner+" (being deleted since ")
				finalizeNamespace(t, inner)
				waitGone(t, item)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Log(c.reason)
			namespace := newNamespace(t)
			createTarget(t, namespace, "my-target")
			inner := namespace + "-inner"
			object := configMapWith(inner, "a", nil)
			manifests := []map[string]any{object, newManifest("v1", "Namespace", "", inner, nil)}
			if !c.own {
				create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner}})
				manifests = manifests[:1]
			}
			item := withTarget(newItem(namespace, "item", manifestType, configWith(t, nil, manifests...)), "my-target")
			item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
			deleteObject(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner}})
			destroy(t, object)
			c.then(t, item, inner, object)
		})
	}
}

// mustSucceedWith waits until the job has succeeded, and checks that the object is there.
func mustSucceedWith(t *testing.T, item *v1alpha1.DeployItem, job string, object map[string]any) {
	t.Helper()
	if item = waitFinished(t, item, job); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Fatalf("expected success, but found %s", describe(item))
	}
	if live(t, object) == nil {
		t.Error("the object is not there")
	}
}

// waitReconciling waits until the item says a text about what it does.
func waitReconciling(t *testing.T, item *v1alpha1.DeployItem, text string) *v1alpha1.DeployItem {
	t.Helper()
	return waitFor(t, item, "reconciling: "+text, func(i *v1alpha1.DeployItem) bool {
		return strings.Contains(conditionOf(i, "Reconciling").Message, text)
	})
}

// TestNamespaceOfItemIsDeleted: the item's deletion needs its Target, which goes with the same namespace. Which of them is first is nobody's
// choice.
func TestNamespaceOfItemIsDeleted(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest"), Standalone: true})
	for name, c := range map[string]struct {
		reason      string
		targetFirst bool
	}{
		"item first":   {reason: "the deletion deletes the objects"},
		"target first": {reason: "the deletion fails, says what to do, and lets the item go without its objects when it is told to", targetFirst: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace, elsewhere := newNamespace(t), newNamespace(t)
			createTarget(t, namespace, "my-target")
			object := configMapWith(elsewhere, "a", nil)
			item := withTarget(newItem(namespace, "item", manifestType, configWith(t, nil, object)), "my-target")
			create(t, item)
			waitFor(t, item, "deployed", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseSucceeded })
			deleteObject(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
			target := &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Name: "my-target", Namespace: namespace}}
			secret := &corev1.Secret{ObjectMeta: target.ObjectMeta}
			if c.targetFirst {
				deleteObject(t, target)
				deleteObject(t, secret)
			}
			deleteObject(t, item)
			if c.targetFirst {
				item = waitFor(t, item, "refused", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseDeleteFailed })
				mustMention(t, "the error", item.Status.LastError.Message, "my-target", v1alpha1.DeleteWithoutUninstallAnnotation)
				annotate(t, item, v1alpha1.DeleteWithoutUninstallAnnotation, "true")
			}
			waitGone(t, item)
			if stays := live(t, object) != nil; stays != c.targetFirst {
				t.Errorf("%s, but the object is there: %v", c.reason, stays)
			}
		})
	}
}
