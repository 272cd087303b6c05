package deployer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// render returns the children of a deploy item, without a target.
func (w *world) render(item *landscaper.DeployItem, before ...sdk.Child) []sdk.Child {
	w.Helper()
	children, err := w.Plugin.Render(w.Context(), sdktest.Call{DeployItem: item, Children: before})
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
	return w.MustSucceed(item)
}

// change returns the children with each object changed.
func change(w *world, children []sdk.Child, f func(*unstructured.Unstructured)) []sdk.Child {
	w.Helper()
	out := make([]sdk.Child, 0, len(children))
	for _, child := range children {
		o := &unstructured.Unstructured{}
		mustParse(w, child.Object, o)
		f(o)
		out = append(out, sdk.Child{Name: child.Name, Object: w.Marshal(o)})
	}
	return out
}

func TestRender(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain, secret := object{}, object{}
	const plainJSON = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"plain"}}`
	const secretJSON = `{"apiVersion":"v1","data":{"a":"YQ=="},"kind":"Secret","metadata":{"name":"secret"}}`
	mustParse(t, []byte(plainJSON), &plain)
	mustParse(t, []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"secret","uid":"1"},
		"stringData":{"a":"a"}}`), &secret)
	older := with(config(), "apiVersion", "manifest.deployer.landscaper.gardener.cloud/v1alpha1")
	for name, c := range map[string]struct {
		reason string
		config object
		want   []string
	}{
		"nothing": {reason: "an item without manifests has no children", config: config()},
		"manifests": {
			reason: "each object is named by its path; it is as it is applied, but for what only the target knows",
			config: config(plain, secret),
			want:   []string{"manifests[0].manifest " + plainJSON, "manifests[1].manifest " + secretJSON},
		},
		"list": {
			reason: "the items of a list are objects of their own",
			config: config(object{"apiVersion": "v1", "kind": "List", "items": []any{plain, secret}}),
			want: []string{
				"manifests[0].manifest.items[0] " + plainJSON, "manifests[0].manifest.items[1] " + secretJSON,
			},
		},
		"v1alpha1": {
			reason: "the paths are those of the document as it was written",
			config: with(older, "manifests", []any{plain}), want: []string{"manifests[0] " + plainJSON},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			item := w.item(c.config)
			first := w.render(item)
			var found []string
			for _, child := range first {
				found = append(found, child.Name+" "+string(child.Object))
			}
			if diff := cmp.Diff(c.want, found); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			for when, again := range map[string][]sdk.Child{
				"the second time": w.render(item), "with these children": w.render(item, first...),
			} {
				if diff := cmp.Diff(first, again); diff != "" {
					t.Errorf("%s: -want +got:\n%s", when, diff)
				}
			}
			if got := w.Requests.Take(); len(got) > 0 {
				t.Errorf("expected no request, but found %v", got)
			}
		})
	}
}

func TestChildrenAreApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.ConfigMap("a", object{"foo": "<&>"}), w.ConfigMap("b", nil)))
	children := change(w, w.render(item), func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{"hooked": "yes"})
	})
	w.mustApply(item, children)
	for name, data := range map[string]any{"a": object{"foo": "<&>"}, "b": nil} {
		created := w.MustGet(configMaps, name)
		labels := map[string]string{
			"hooked": "yes", "pergola.dev/deployitem": w.Namespace + ".item",
			"manifest.deployer.landscaper.gardener.cloud/deployitem": "item",
		}
		if diff := cmp.Diff([]any{labels, data}, []any{created.GetLabels(), created.Object["data"]}); diff != "" {
			t.Errorf("labels and data of %s: -want +got:\n%s", name, diff)
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
	number := with(w.custom("Number", "number"), "spec", object{
		"int": json.Number("9007199254740993"), "float": 0.5, "whole": json.Number("3.0"), "large": json.Number("1e17"),
	})
	secret := w.secretWith("secret", "hunter2")
	item := w.item(config(number, w.crd("Number"), secret, w.ConfigMap("a", object{"foo": "<&>"})))
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
	w.mustDelete(item)
}

func TestChildrenThatDoNotFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The value is base64, too, so that nothing but its kind is wrong with a Secret that is made of the object.
	item := w.item(config(w.ConfigMap("a", object{"k": "hunter22"}), w.ConfigMap("b", nil)))
	good := w.render(item)
	first := func(document string) []sdk.Child {
		return []sdk.Child{{Name: good[0].Name, Object: json.RawMessage(document)}, good[1]}
	}
	renamed := func(f func(*unstructured.Unstructured)) []sdk.Child { return append(change(w, good[:1], f), good[1]) }
	const path = "children[manifests[0].manifest]"
	for name, c := range map[string]struct {
		reason   string
		children []sdk.Child
		want     []string
	}{
		"none": {"no object can be taken out, also if all are", []sdk.Child{}, []string{
			path + ": Required value: ConfigMap " + w.Namespace + "/a cannot be left out",
			"children[manifests[1].manifest]: Required value: ConfigMap " + w.Namespace + "/b cannot be left out",
		}},
		"unknown": {
			"no object can be added, and what is missing is told too",
			[]sdk.Child{good[0], {Name: "more", Object: good[1].Object}},
			[]string{"children[more]: Invalid value: there is no such object", "children[manifests[1].manifest]: Required"},
		},
		"twice": {
			"which of the two counts is not guessed", append(good[:2:2], good[0]),
			[]string{path + ": Invalid value: is given twice"},
		},
		"name": {
			"an object keeps its name", renamed(func(o *unstructured.Unstructured) { o.SetName("c") }), []string{
				path, "expected ConfigMap " + w.Namespace + "/a of apiVersion v1", "found ConfigMap " + w.Namespace + "/c",
			},
		},
		"namespace": {
			"and its namespace", renamed(func(o *unstructured.Unstructured) { o.SetNamespace("other") }),
			[]string{path, "found ConfigMap other/a"},
		},
		"kind": {
			"and its kind", renamed(func(o *unstructured.Unstructured) { o.SetKind("Secret"); delete(o.Object, "data") }),
			[]string{path, "found Secret " + w.Namespace + "/a"},
		},
		"apiVersion": {
			"and its version", renamed(func(o *unstructured.Unstructured) { o.SetAPIVersion("v2") }),
			[]string{path, "of apiVersion v2"},
		},
		"no JSON": {
			"nonsense is named and not quoted", first(`hunter2`), []string{path + ": Invalid value: expected an object"},
		},
		"empty": {"neither is nothing an object", first(``), []string{path + ": Required value"}},
		"null":  {"nor is null", first(`null`), []string{path + ": Required value"}},
		"list": {
			"one object cannot become several", first(`{"apiVersion":"v1","kind":"List","items":[]}`),
			[]string{path + ": Invalid value: expected one object"},
		},
		"labels": {
			"problems of an object have their paths in it",
			first(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"n":1}}}`),
			[]string{path + ".metadata.labels[n]: Invalid value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			result := w.Plugin.Reconcile(t.Context(),
				sdktest.Call{DeployItem: item, Target: w.Call.Target, Children: c.children})
			w.MustFail(result, plugintest.ConfigurationProblem, append(c.want, "ChildrenInvalid")...)
			if strings.Contains(result.String(), "hunter2") || t.Failed() {
				t.Errorf("%s; nothing of the object is quoted: %s", c.reason, result)
			}
		})
	}
	if got := w.Requests.Take(); len(got) > 0 {
		t.Errorf("expected no request for bad children, but found %v", got)
	}
}
