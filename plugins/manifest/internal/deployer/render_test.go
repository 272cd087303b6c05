package deployer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// render returns the children of a deploy item, without a target.
func (w *world) render(item *landscaper.DeployItem) []sdk.Child {
	w.Helper()
	children, err := w.Plugin.Render(w.Context(), sdktest.Call{DeployItem: item})
	if err != nil {
		w.Fatal(err)
	}
	return children
}

// mustApply calls the deployer with children until the job is done.
func (w *world) mustApply(item *landscaper.DeployItem, children []sdk.Child) *sdktest.Result {
	w.Helper()
	w.Call.Children = children
	defer func() { w.Call.Children = nil }()
	result := w.UntilDone(plugintest.Reconcile, item)
	if result.Succeeded == nil {
		w.Fatalf("expected success, but found: %s", result)
	}
	return result
}

// change returns the children with each object changed.
func change(t *testing.T, children []sdk.Child, f func(*unstructured.Unstructured)) []sdk.Child {
	t.Helper()
	out := make([]sdk.Child, 0, len(children))
	for _, child := range children {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal(child.Object, o); err != nil {
			t.Fatal(err)
		}
		f(o)
		document, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, sdk.Child{Name: child.Name, Object: document})
	}
	return out
}

func label(key, value string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
		o.SetLabels(labels)
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "plain"}}
	secret := object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "secret", "uid": "1"}, "stringData": object{"a": "a"}}
	list := object{"apiVersion": "v1", "kind": "List", "items": []any{plain, secret}}
	const plainJSON = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"plain"}}`
	const secretJSON = `{"apiVersion":"v1","data":{"a":"YQ=="},"kind":"Secret","metadata":{"name":"secret"}}`
	for name, c := range map[string]struct {
		reason string
		config object
		want   []sdk.Child
	}{
		"nothing": {reason: "an item without manifests has no children", config: config(), want: []sdk.Child{}},
		"manifests": {
			reason: "each object is named by its path; it is as it is applied, but for what only the target knows",
			config: config(plain, secret),
			want: []sdk.Child{
				{Name: "manifests[0].manifest", Object: json.RawMessage(plainJSON)},
				{Name: "manifests[1].manifest", Object: json.RawMessage(secretJSON)},
			},
		},
		"list": {
			reason: "the items of a list are objects of their own",
			config: config(list),
			want: []sdk.Child{
				{Name: "manifests[0].manifest.items[0]", Object: json.RawMessage(plainJSON)},
				{Name: "manifests[0].manifest.items[1]", Object: json.RawMessage(secretJSON)},
			},
		},
		"v1alpha1": {
			reason: "the paths are those of the document as it was written",
			config: object{
				"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration", "manifests": []any{plain},
			},
			want: []sdk.Child{{Name: "manifests[0]", Object: json.RawMessage(plainJSON)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			item := w.item(c.config)
			first := w.render(item)
			if diff := cmp.Diff(c.want, first, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(first, w.render(item)); diff != "" {
				t.Errorf("the second time: -want +got:\n%s", diff)
			}
			again, err := w.Plugin.Render(t.Context(), sdktest.Call{DeployItem: item, Children: first})
			if diff := cmp.Diff(first, again); diff != "" || err != nil {
				t.Errorf("with these children: %v -want +got:\n%s", err, diff)
			}
			if got := w.Requests.Take(); len(got) > 0 {
				t.Errorf("expected no request, but found %v", got)
			}
		})
	}
}

func TestRenderReportsBadConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Plugin.Render(t.Context(), sdktest.Call{DeployItem: w.item(with(config(), "updateStrategy", "replace"))})
	if err == nil || !strings.Contains(err.Error(), "spec.config: updateStrategy: Unsupported value") {
		t.Errorf("expected the error of a job with this configuration, but found %v", err)
	}
}

func TestChildrenAreApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(with(config(w.configMap("a", object{"foo": "<&>"}), w.configMap("b", nil)), "exports",
		[]any{export("x", ".metadata.labels.hooked", w.Namespace, "a")}))
	children := change(t, w.render(item), label("hooked", "yes"))

	result := w.mustApply(item, children)
	if diff := cmp.Diff(object{"x": "yes"}, result.Succeeded.Exports); diff != "" {
		t.Errorf("exports: -want +got:\n%s", diff)
	}
	for name, data := range map[string]any{"a": object{"foo": "<&>"}, "b": nil} {
		created := w.MustGet(configMaps, name)
		labels := map[string]string{
			"hooked": "yes", "pergola.dev/deployitem": w.Namespace + ".item", "manifest.deployer.landscaper.gardener.cloud/deployitem": "item",
		}
		if diff := cmp.Diff(labels, created.GetLabels()); diff != "" {
			t.Errorf("labels of %s: -want +got:\n%s", name, diff)
		}
		if diff := cmp.Diff(data, created.Object["data"]); diff != "" {
			t.Errorf("data of %s: -want +got:\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]string{"ConfigMap a", "ConfigMap b"}, w.managed(item)); diff != "" {
		t.Errorf("managed: -want +got:\n%s", diff)
	}

	w.Requests.Take()
	w.mustApply(item, children)
	if got := w.Requests.Writes(); len(got) > 0 {
		t.Errorf("expected no write for the same children, but found %v", got)
	}

	w.SetConfig(item, config(w.configMap("a", nil), w.configMap("b", nil)))
	w.mustSucceed(item)
	if got := w.MustGet(configMaps, "b").GetLabels()["hooked"]; got != "" {
		t.Error("expected the label to go when nobody adds it any more")
	}
}

// TestRenderedIsWhatIsApplied hands back the children of objects in whose writing there is a choice. A difference to
// what was applied without children would show as a write.
func TestRenderedIsWhatIsApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := object{
		"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "secret", "namespace": w.Namespace},
		"stringData": object{"password": "hunter2"},
	}
	number := w.custom("Number", "number")
	number["spec"] = object{"int": json.Number("9007199254740993"), "float": 0.5, "whole": json.Number("3.0"), "large": json.Number("1e17")}
	item := w.item(config(number, w.crd("Number"), secret, w.configMap("a", object{"foo": "<&>"})))
	w.mustSucceed(item)
	before := string(item.Status.ProviderStatus.Raw)
	w.Requests.Take()

	w.mustApply(item, w.render(item))
	if got := w.Requests.Writes(); len(got) > 0 {
		t.Errorf("expected no write, but found %v", got)
	}
	if diff := cmp.Diff(before, string(item.Status.ProviderStatus.Raw)); diff != "" {
		t.Errorf("provider status: -want +got:\n%s", diff)
	}
	if deleted := w.UntilDone(plugintest.Delete, item); deleted.Succeeded == nil {
		t.Fatalf("expected the deletion to succeed, but found: %s", deleted)
	}
}

func TestChildrenThatDoNotFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The value is base64, too, so that nothing but its kind is wrong with a Secret that is made of the object.
	item := w.item(config(w.configMap("a", object{"k": "hunter22"}), w.configMap("b", nil)))
	good := w.render(item)
	first := func(document string) []sdk.Child {
		return []sdk.Child{{Name: good[0].Name, Object: json.RawMessage(document)}, good[1]}
	}
	renamed := func(f func(*unstructured.Unstructured)) []sdk.Child {
		return append(change(t, good[:1], f), good[1])
	}
	const path = "children[manifests[0].manifest]"
	for name, c := range map[string]struct {
		reason   string
		children []sdk.Child
		want     []string
	}{
		"none": {
			reason: "no object can be taken out, also if all are", children: []sdk.Child{},
			want: []string{
				path + ": Required value: ConfigMap " + w.Namespace + "/a cannot be left out",
				"children[manifests[1].manifest]: Required value: ConfigMap " + w.Namespace + "/b cannot be left out",
			},
		},
		"unknown": {
			reason: "no object can be added, and what is missing is told too", children: []sdk.Child{good[0], {Name: "more", Object: good[1].Object}},
			want: []string{"children[more]: Invalid value: there is no such object", "children[manifests[1].manifest]: Required"},
		},
		"twice":      {reason: "which of the two counts is not guessed", children: append(good[:2:2], good[0]), want: []string{path + ": Invalid value: is given twice"}},
		"name":       {reason: "an object keeps its name", children: renamed(func(o *unstructured.Unstructured) { o.SetName("c") }), want: []string{path, "expected ConfigMap " + w.Namespace + "/a of apiVersion v1", "found ConfigMap " + w.Namespace + "/c"}},
		"namespace":  {reason: "and its namespace", children: renamed(func(o *unstructured.Unstructured) { o.SetNamespace("other") }), want: []string{path, "found ConfigMap other/a"}},
		"kind":       {reason: "and its kind", children: renamed(func(o *unstructured.Unstructured) { o.SetKind("Secret"); delete(o.Object, "data") }), want: []string{path, "found Secret " + w.Namespace + "/a"}},
		"apiVersion": {reason: "and its version", children: renamed(func(o *unstructured.Unstructured) { o.SetAPIVersion("v2") }), want: []string{path, "of apiVersion v2"}},
		"no JSON":    {reason: "nonsense is named and not quoted", children: first(`hunter2`), want: []string{path + ": Invalid value: expected an object"}},
		"empty":      {reason: "neither is nothing an object", children: first(``), want: []string{path + ": Required value"}},
		"null":       {reason: "nor is null", children: first(`null`), want: []string{path + ": Required value"}},
		"list":       {reason: "one object cannot become several", children: first(`{"apiVersion":"v1","kind":"List","items":[]}`), want: []string{path + ": Invalid value: expected one object"}},
		"labels": {
			reason: "problems of an object have their paths in it", children: first(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"n":1}}}`),
			want: []string{path + ".metadata.labels[n]: Invalid value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			result := w.Plugin.Reconcile(t.Context(), sdktest.Call{DeployItem: item, Target: w.Call.Target, Children: c.children})
			w.MustFail(result, plugintest.ConfigurationProblem, append(c.want, "ChildrenInvalid")...)
			if strings.Contains(result.String(), "hunter2") {
				t.Errorf("the error quotes the object: %s", result)
			}
			if t.Failed() {
				t.Log(c.reason)
			}
		})
	}
	if got := w.Requests.Take(); len(got) > 0 {
		t.Errorf("expected no request for bad children, but found %v", got)
	}
}
