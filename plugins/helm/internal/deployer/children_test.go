package deployer_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// about is a template that tells what it was rendered for, and has an object that is only for an installation.
func about() charts.Option {
	return charts.File("templates/about.yaml", `apiVersion: v1
kind: ConfigMap
metadata:
  name: about
data:
  revision: {{ .Release.Revision | quote }}
  upgrade: {{ .Release.IsUpgrade | quote }}
{{- if .Release.IsInstall }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: first
  annotations:
    helm.sh/resource-policy: keep
{{- end }}
`)
}

// withHook is a call with what an HTTP hook makes of the objects: it annotates each.
func (w *world) withHook(item *landscaper.DeployItem) sdktest.Call {
	w.Helper()
	call := w.CallOf(item)
	children, err := w.Plugin.Render(w.Context(), call)
	if err != nil {
		w.Fatal(err)
	}
	for i, child := range children {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal(child.Object, o); err != nil {
			w.Fatal(err)
		}
		o.SetAnnotations(map[string]string{"example.org/hooked": "yes", "helm.sh/resource-policy": "keep"})
		if children[i].Object, err = json.Marshal(o); err != nil {
			w.Fatal(err)
		}
	}
	call.Children = children
	return call
}

// mustSucceedWithHook does a job before each call of which the hook is asked, as a host does it.
func (w *world) mustSucceedWithHook(item *landscaper.DeployItem, force bool) {
	w.Helper()
	operation := plugintest.Reconcile
	if force {
		operation = plugintest.ForceReconcile
	}
	for range 5 {
		result := w.DoCall(w.Context(), operation, w.withHook(item))
		if result.Succeeded != nil {
			return
		}
		if result.InProgress == nil {
			w.Fatalf("expected success, but found: %s", result)
		}
	}
	w.Fatal("the job does not end")
}

func (w *world) mustRender(item *landscaper.DeployItem, revision, upgrade string, names ...string) {
	w.Helper()
	children, err := w.Plugin.Render(w.Context(), w.CallOf(item))
	if err != nil {
		w.Fatal(err)
	}
	var got []string
	for _, child := range children {
		got = append(got, child.Name)
		if child.Name != "ConfigMap about" {
			continue
		}
		var o struct{ Data map[string]string }
		if err := json.Unmarshal(child.Object, &o); err != nil {
			w.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"revision": revision, "upgrade": upgrade}, o.Data); diff != "" {
			w.Errorf("what the template was told: -want +got:\n%s", diff)
		}
	}
	if diff := cmp.Diff(names, got); diff != "" {
		w.Errorf("the objects: -want +got:\n%s", diff)
	}
}

// TestRenderedIsWhatIsDeployed: the objects that an HTTP hook sees are those of the revision that the job makes,
// whatever it makes it for.
func TestRenderedIsWhatIsDeployed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := []string{"ConfigMap about", "ConfigMap first", "ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings"}
	later := slices.DeleteFunc(slices.Clone(first), func(name string) bool { return name == "ConfigMap first" })
	item := w.item(w.config(chart("plain", about()), object{"greeting": "one"}))

	w.mustRender(item, "1", "false", first...)
	w.mustSucceedWithHook(item, false)
	w.mustBeAbout("1", "false")
	plugintest.NewJob(item)
	w.mustRender(item, "1", "false", first...)
	w.mustSucceedWithHook(item, false)
	w.mustHave("1 deployed")
	w.mustChange(item)

	w.setConfig(item, w.config(chart("plain", about()), object{"greeting": "two"}))
	w.mustRender(item, "2", "true", later...)
	w.mustSucceedWithHook(item, false)
	w.mustHave("1 superseded", "2 deployed")
	w.mustBeAbout("2", "true")

	w.Patch(configMaps, "shop-plain-greeting", `{"data":{"greeting":"boo"}}`)
	plugintest.NewJob(item)
	w.mustRender(item, "2", "true", later...)
	w.mustSucceedWithHook(item, false)
	w.mustGreet("two")
	w.mustBeAbout("3", "true")
	plugintest.NewJob(item)
	w.mustSucceedWithHook(item, true)
	w.mustBeAbout("4", "true")
	plugintest.NewJob(item)
	w.mustSucceedWithHook(item, false)
	w.mustHave("1 superseded", "2 superseded", "3 superseded", "4 deployed")
	if next := w.status(item).Release.Next; next != 0 {
		t.Errorf("expected nothing left to do, but found revision %d", next)
	}
	if got := w.Get(configMaps, "about").GetAnnotations()["example.org/hooked"]; got != "yes" {
		t.Errorf("expected the object as the hook has it, but found the annotation %q", got)
	}
	w.MustDelete(item)
}

// mustBeAbout checks what the template about was rendered for on the target.
func (w *world) mustBeAbout(revision, upgrade string) {
	w.Helper()
	want := object{"revision": revision, "upgrade": upgrade}
	if diff := cmp.Diff(want, w.Get(configMaps, "about").Object["data"]); diff != "" {
		w.Errorf("what was deployed: -want +got:\n%s", diff)
	}
}

// TestRepairOfAnInstallationWithHook: what is only for an installation is not missed when the first revision is
// repaired.
func TestRepairOfAnInstallationWithHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain", about()), nil))
	w.mustSucceedWithHook(item, false)
	w.Delete(configMaps, "shop-plain-greeting")
	plugintest.NewJob(item)
	result := w.DoCall(t.Context(), plugintest.Reconcile, w.withHook(item))
	if result.InProgress == nil {
		t.Fatalf("expected that the hook is to see the objects of the next revision first, but found: %s", result)
	}
	w.mustSucceedWithHook(item, false)
	w.mustHave("1 superseded", "2 deployed")
	w.mustGreet("hello")
	w.mustBeAbout("2", "true")
	w.MustDelete(item)
}

// TestRenderWithoutRelease: there are no revisions, and templates see an installation each time.
// Rule (helm.md#without-a-release): Templates see an installation, with `.Release.IsInstall`.
func TestRenderWithoutRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain", about()), nil, withoutRelease))
	for _, greeting := range []string{"one", "two"} {
		w.setConfig(item, w.config(chart("plain", about()), object{"greeting": greeting}, withoutRelease))
		w.mustRender(item, "0", "false", "ConfigMap about", "ConfigMap first", "ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings")
		w.MustSucceed(item)
		w.mustBeAbout("0", "false")
	}
	w.MustDelete(item)
}

// TestDiffOfAnUpgrade shows what an upgrade renders.
func TestDiffOfAnUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain", about()), nil))
	w.MustSucceed(item)
	w.setConfig(item, w.config(chart("plain", about()), object{"copies": 2}))
	w.mustChange(item, "keep ConfigMap %s/first", "update ConfigMap %s/about", "update ConfigMap %s/shop-plain-greeting")
	w.MustSucceed(item)
	w.mustBeAbout("2", "true")
	w.MustDelete(item)
}

// TestChartThatRendersAnewEachTime: with an HTTP hook the objects are others in each call, and the job makes one
// revision all the same.
// Rule (helm.md#unchanged-releases-and-drift): A chart with other objects each time gets one revision per job with an
// HTTP hook.
func TestChartThatRendersAnewEachTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	random := charts.File("templates/random.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: random}\ndata: {text: {{ randAlphaNum 20 }}}\n")
	item := w.item(w.config(chart("plain", random), nil, object{"readinessChecks": object{"custom": []any{object{
		"name": "approved", "resourceSelector": []any{object{"apiVersion": "v1", "kind": "ConfigMap", "name": "random", "namespace": w.Namespace}},
		"requirements": []any{object{"jsonPath": ".data.approved", "operator": "exists"}},
	}}}}))
	for range 3 {
		if result := w.DoCall(t.Context(), plugintest.Reconcile, w.withHook(item)); result.InProgress == nil {
			t.Fatalf("expected that the check is waited for, but found: %s", result)
		}
	}
	w.mustHave("1 deployed")
	w.Patch(configMaps, "random", `{"data":{"approved":"yes"}}`)
	w.mustSucceedWithHook(item, false)
	w.mustHave("1 deployed")
	w.MustDelete(item)
}

// TestChildrenOfAChartWithHooks: Helm creates the objects of its own hooks, which an HTTP hook does not see then.
// Rule (helm.md#http-hooks): An HTTP hook does not get the hooks of a chart.
func TestChildrenOfAChartWithHooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("hooks"), nil))
	w.mustRender(item, "", "", "ConfigMap shop-hooks")
	w.mustSucceedWithHook(item, false)
	w.setConfig(item, w.config(chart("hooks"), object{"greeting": "two"}))
	changes, err := w.Plugin.Diff(t.Context(), w.CallOf(item))
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) != 1 || changes[0].Action != sdk.ActionUpdate {
		t.Errorf("expected a change of the object that is no hook, but found %+v", changes)
	}
	w.mustSucceedWithHook(item, false)
	w.mustHave("1 superseded", "2 deployed")
	w.MustDelete(item)
}
