package deployer_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sdktest.Conform(t, w.Plugin, sdktest.Case{
		Name: "ConfigMap",
		Call: sdktest.Call{DeployItem: w.item(config(w.configMap("conform", object{"a": "b"}))), Target: w.Call.Target},
	})
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.deployment("web", "nginx")))
	result := w.Do(plugintest.Reconcile, item)
	w.mustWait(result, "Deployment "+w.Namespace+"/web: ")
	if result.InProgress.PollAfter <= 0 {
		t.Errorf("expected a poll hint, but found %s", result.InProgress.PollAfter)
	}
	if diff := cmp.Diff([]string{"Deployment web"}, w.managed(item)); diff != "" {
		t.Errorf("managed: -want +got:\n%s", diff)
	}
	for _, m := range w.Do(plugintest.Reconcile, item).Messages {
		if m.Progress != nil && m.Progress.Step != "Readiness" {
			t.Errorf("a call that only looks again must not hide what is waited for, but it says %q", m.Progress.Message)
		}
	}
	w.ready("web")
	w.Requests.Take()
	w.mustSucceed(item)
	if diff := cmp.Diff([]string{"GET /apis/apps/v1/namespaces/" + w.Namespace + "/deployments/web"}, w.Requests.Take()); diff != "" {
		t.Errorf("requests of a poll: -want +got:\n%s", diff)
	}

	w.Patch(deployments, "web", `{"status":{"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"no"}]}}`, "status")
	noRetry := []landscaper.ErrorCode{landscaper.ErrorNoRetry}
	w.MustFail(w.Do(plugintest.Reconcile, item), noRetry, "Readiness", "ObjectFailed", "Deployment "+w.Namespace+"/web")

	w.SetConfig(item, with(config(w.deployment("web", "nginx")), "readinessChecks", object{"disableDefault": true}))
	w.mustSucceed(item)
}

// Rule (manifest.md#exports): Exports of the older configuration of the manifest deployer work.
func TestV1alpha1WithExports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Names in the default namespace are shared by all tests.
	homeless := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": w.Namespace}, "data": object{"foo": "bar"}}
	exports := []any{export("x", ".data.foo", "", w.Namespace)}
	for reason, e := range map[string]any{
		"exports of v1alpha1 are not dropped":       object{"exports": exports},
		"nor are they when they are a list at once": exports,
	} {
		item := w.item(object{
			"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
			"manifests": []any{homeless}, "exports": e,
		})
		if diff := cmp.Diff(object{"x": "bar"}, w.mustSucceed(item).Succeeded.Exports); diff != "" {
			t.Errorf("%s: -want +got:\n%s", reason, diff)
		}
	}
}

// TestKindThatComesLater has the kind defined by another deploy item after a call that did not find it: a retry does.
func TestKindThatComesLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.custom("Latecomer", "l")))
	w.MustFail(w.Do(plugintest.Reconcile, item), nil, "UnknownKind", "serves no kind Latecomer")
	definition := w.item(config(w.crd("Latecomer")))
	definition.Name = "definition"
	w.mustSucceed(definition)
	w.Eventually("a retry to succeed, once the API server serves the kind", func() bool {
		return w.Do(plugintest.Reconcile, item).Succeeded != nil
	})
}

// TestSteps: the progress of a job tells what it does, one step after the other.
func TestSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("orphan", nil)))
	w.mustSucceed(item)
	w.SetConfig(item, with(config(w.deployment("web", "nginx")), "exports", []any{export("x", ".data.x", w.Namespace, "later")}))

	var steps []string
	note := func() {
		t.Helper()
		for _, m := range w.Do(plugintest.Reconcile, item).Messages {
			if m.Progress != nil {
				steps = append(steps, m.Progress.Step)
			}
		}
	}
	note()
	w.ready("web")
	note()
	// A look that finds everything applied says nothing of it: what is waited for is to be seen.
	want := []string{"Apply", "CleanUp", "Readiness", "Export"}
	if diff := cmp.Diff(want, slices.Compact(steps)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// check is a custom readiness check of ConfigMaps of the test's namespace.
func (w *world) check(requirement object, names ...string) object {
	var selected []any
	for _, name := range names {
		selected = append(selected, object{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": w.Namespace})
	}
	return object{"custom": []any{object{"name": "check", "resourceSelector": selected, "requirements": []any{requirement}}}}
}

// TestChecksOfManagedObjects judges what the item itself has applied, as it was just read.
func TestChecksOfManagedObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	done := object{"jsonPath": ".metadata.annotations.state", "operator": "==", "values": []any{object{"value": "done"}}}
	item := w.item(with(config(w.configMap("a", nil)), "readinessChecks", w.check(done, "a")))
	w.mustWait(w.Do(plugintest.Reconcile, item), "ConfigMap "+w.Namespace+"/a")
	w.Requests.Take()
	// The list of objects must not grow from one look to the next.
	for range 3 {
		w.mustWait(w.Do(plugintest.Reconcile, item), "ConfigMap "+w.Namespace+"/a")
		if got := w.Requests.Take(); len(got) != 1 {
			t.Errorf("expected a look to cost one request, but found %v", got)
		}
	}
	w.Patch(configMaps, "a", `{"metadata":{"annotations":{"state":"done"}}}`)
	w.mustSucceed(item)
}

func TestEmptyAnnotationsAreSavedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(configOf(entry(w.configMap("a", nil), object{"annotateBeforeDelete": object{}})))
	w.mustSucceed(item)
	w.Requests.Take()
	result := w.Do(plugintest.Reconcile, item)
	if slices.Contains(w.Requests.Steps(), plugintest.StepSave) {
		t.Errorf("saved %s", result.ProviderStatus)
	}
}

// TestTooManyObjectsForAnItem: a list of objects that the item could hold before they exist, but not with their UIDs,
// is refused before one of them is created.
// Rule (manifest.md#managed-resources): Nothing is created without a place in the inventory.
func TestTooManyObjectsForAnItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var manifests []object
	for n := range 5000 {
		manifests = append(manifests, w.configMap(fmt.Sprintf("c-%04d", n), nil))
	}
	result := w.Do(plugintest.Reconcile, w.item(config(manifests...)))
	if result.Failed == nil || result.Failed.Errors[0].Reason != sdk.ReasonItemTooLarge ||
		!slices.Contains(result.Failed.Codes(), landscaper.ErrorNoRetry) {
		t.Errorf("expected %s, but found %s", sdk.ReasonItemTooLarge, result)
	}
	if created := w.Names(configMaps, owner.Label); len(created) > 0 {
		t.Errorf("%d objects were created", len(created))
	}
}
