package deployer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
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

// TestCreateOnce: an object costs one request to create, and one in each job that finds nothing to do.
func TestCreateOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("settings", object{"a": "1", "b": "2"})))
	path := "/api/v1/namespaces/" + w.Namespace + "/configmaps"

	w.mustSucceed(item)
	if diff := cmp.Diff([]string{"POST " + path}, w.Requests.Take()); diff != "" {
		t.Errorf("requests of the first job: -want +got:\n%s", diff)
	}
	created := w.MustGet(configMaps, "settings")
	if got := created.GetLabels()["manifest.deployer.landscaper.gardener.cloud/deployitem"]; got != "item" {
		t.Errorf("expected the label of the deploy item, but found %q", got)
	}
	if got := created.GetManagedFields()[0].Manager; got != "pergola" {
		t.Errorf("expected the field manager pergola, but found %q", got)
	}

	again := w.mustSucceed(item)
	if diff := cmp.Diff([]string{"GET " + path + "/settings"}, w.Requests.Take()); diff != "" {
		t.Errorf("requests of a job without a change: -want +got:\n%s", diff)
	}
	if len(again.Messages) > 0 && again.Messages[0].ProviderStatus != nil {
		t.Error("a job without a change saved the provider status")
	}
	if got := w.MustGet(configMaps, "settings").GetResourceVersion(); got != created.GetResourceVersion() {
		t.Error("a job without a change wrote the object")
	}
}

func TestDeletedBehindTheBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	w.mustSucceed(item)
	w.Patch(configMaps, "a", `{"metadata":{"finalizers":["example.org/hold"]}}`)
	if err := w.Objects(configMaps).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.mustWait(w.Do(plugintest.Reconcile, item), "ConfigMap "+w.Namespace+"/a", "to be gone before it is created again")
	w.Patch(configMaps, "a", `{"metadata":{"finalizers":null}}`)
	w.mustSucceed(item)
	if o := w.MustGet(configMaps, "a"); o.GetDeletionTimestamp() != nil {
		t.Error("expected a new object")
	}
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
