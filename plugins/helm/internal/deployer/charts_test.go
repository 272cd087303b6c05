package deployer_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// What a chart may consist of, with a release and without.

// bothModes runs a test with a release and without.
func bothModes(t *testing.T, test func(t *testing.T, mode object)) {
	t.Helper()
	for name, mode := range map[string]object{"with a release": {}, "without": withoutRelease} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, mode)
		})
	}
}

// definition is a CustomResourceDefinition of a group of its own, since all tests share one cluster.
type definition struct {
	group     string
	resources schema.GroupVersionResource
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func (w *world) definition() definition {
	group := w.Namespace + ".example.org"
	w.DeleteAfter(plugintest.CRDs, "gadgets."+group)
	return definition{group: group, resources: schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gadgets"}}
}

// chart returns a chart with the definition, of which the fields of spec are so many, and an object of its kind.
func (d definition) chart(fields int, opts ...charts.Option) object {
	properties := ""
	for i := range fields {
		properties += fmt.Sprintf("                field%d: {type: string}\n", i)
	}
	opts = append([]charts.Option{
		charts.File("crds/gadgets.yaml", `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: gadgets.`+d.group+`
spec:
  group: `+d.group+`
  scope: Namespaced
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                size: {type: integer}
`+properties),
		charts.File("templates/gadget.yaml", `apiVersion: `+d.group+`/v1
kind: Gadget
metadata:
  name: {{ .Release.Name }}
spec:
  size: {{ .Values.gadget.size }}
`),
	}, opts...)
	return chart("definitions", opts...)
}

// fields returns how many fields the definition on the target has in spec; zero if it is not there.
func (d definition) fields(w *world) int {
	w.Helper()
	o, err := w.Objects(definitions).Get(w.Context(), "gadgets."+d.group, metav1.GetOptions{})
	if err != nil {
		return 0
	}
	versions := o.Object["spec"].(object)["versions"].([]any)
	spec := versions[0].(object)["schema"].(object)["openAPIV3Schema"].(object)["properties"].(object)["spec"].(object)
	return len(spec["properties"].(object))
}

func (d definition) size(w *world) any {
	w.Helper()
	o := w.Get(d.resources, "shop")
	if o == nil {
		return nil
	}
	return o.Object["spec"].(object)["size"]
}

// TestDefinitions: those of crds/ are Helm's affair with a release, which creates them and no more, and ordinary
// objects without.
// Rule (helm.md#releases): `crds/` is created by the first installation, and neither updated nor deleted.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode object) {
		t.Helper()
		w := newWorld(t)
		d := w.definition()
		_, ordinary := mode["helmDeployment"]
		item := w.item(w.config(d.chart(0), nil, mode))
		w.MustSucceed(item)
		if d.fields(w) != 1 || d.size(w) != int64(3) {
			t.Errorf("expected the definition and an object, but found %d fields and size %v", d.fields(w), d.size(w))
		}

		w.setConfig(item, w.config(d.chart(1), object{"gadget": object{"size": 4}}, mode))
		w.MustSucceed(item)
		want := map[bool]int{false: 1, true: 2}[ordinary]
		if d.fields(w) != want || d.size(w) != int64(4) {
			t.Errorf("after the upgrade: expected %d fields and size 4, but found %d and %v", want, d.fields(w), d.size(w))
		}

		// Custom resources are looked after as other objects are.
		w.Patch(d.resources, "shop", `{"spec":{"size":9}}`)
		plugintest.NewJob(item)
		w.mustTellDrift(w.MustSucceed(item), "Gadget "+w.Namespace+"/shop: spec.size")
		if d.size(w) != int64(4) {
			t.Errorf("expected the drift to be repaired, but found %v", d.size(w))
		}
		w.Delete(d.resources, "shop")
		plugintest.NewJob(item)
		w.mustTellDrift(w.MustSucceed(item), "Gadget "+w.Namespace+"/shop was missing")
		if d.size(w) != int64(4) {
			t.Errorf("expected the object again, but found %v", d.size(w))
		}

		w.MustDelete(item)
		if stays := d.fields(w) > 0; stays == ordinary {
			t.Errorf("after the deletion: expected the definition to stay: %t, but found %t", !ordinary, stays)
		}
		if d.size(w) != nil {
			t.Error("after the deletion there is still the object")
		}
	})
}

// TestSchemaOfValues: the error names the chart and the paths, and repeats no value; skipSchemaValidation does without.
// Rule (helm.md#releases): `values.schema.json` is validated first, and the error shows no values.
func TestSchemaOfValues(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode object) {
		t.Helper()
		w := newWorld(t)
		wrong := object{"name": "Shop-7", "copies": 9, "password": "short-pass"}
		item := w.item(w.config(chart("schema"), wrong, mode))
		result := w.Do(plugintest.Reconcile, item)
		w.MustFail(result, plugintest.ConfigurationProblem, "schema of the chart", "at '/name': '***' does not match pattern '^[a-z]+$'",
			"at '/copies': maximum: got 9, want 5", "at '/password': minLength")
		w.mustHide(result, "Shop-7", "short-pass")
		if writes := w.Requests.Writes(); len(writes) > 0 {
			t.Errorf("expected no write, but found %v", writes)
		}
		skip := object{"helmDeploymentConfig": object{"install": object{"skipSchemaValidation": true}}}
		w.setConfig(item, w.config(chart("schema"), wrong, mode, skip))
		w.MustSucceed(item)
		if got := w.Get(configMaps, "shop-shop").Object["data"].(object)["copies"]; got != "9" {
			t.Errorf("expected the values as they are, but found %v", got)
		}
		w.MustDelete(item)
	})
}

// mustHide checks that nothing that was said in a call holds a text.
func (w *world) mustHide(result *sdktest.Result, texts ...string) {
	w.Helper()
	said := result.String()
	for _, m := range result.Messages {
		said += fmt.Sprintf("%+v %+v", m.Event, m.Progress)
	}
	for _, text := range texts {
		if strings.Contains(said, text) {
			w.Errorf("expected %q to be hidden, but found it in: %s", text, said)
		}
	}
}

// TestKeep: an object with helm.sh/resource-policy: keep stays, when the chart drops it and when the item is deleted.
// Rule (helm.md#deletion): An object with `helm.sh/resource-policy: keep` stays.
func TestKeep(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode object) {
		t.Helper()
		w := newWorld(t)
		item := w.item(w.config(chart("keep"), nil, mode))
		w.MustSucceed(item)
		w.MustDelete(item)
		if diff := cmp.Diff([]string{"shop-keep-archive"}, w.Names(configMaps, "")); diff != "" {
			t.Errorf("after the deletion: -want +got:\n%s", diff)
		}
		// What has stayed is taken into the next release of that name.
		item = w.item(w.config(chart("keep"), object{"greeting": "again"}, mode))
		w.MustSucceed(item)
		if got := w.Get(configMaps, "shop-keep-archive").Object["data"].(object)["greeting"]; got != "again" {
			t.Errorf("expected that the object is deployed again, but found %v", got)
		}
		w.setConfig(item, w.config(chart("keep", charts.Without("templates/archive.yaml")), nil, mode))
		w.MustSucceed(item)
		if diff := cmp.Diff([]string{"shop-keep-archive", "shop-keep-greeting"}, w.Names(configMaps, "")); diff != "" {
			t.Errorf("after the chart has dropped it: -want +got:\n%s", diff)
		}
		w.MustDelete(item)
		if diff := cmp.Diff([]string{"shop-keep-archive"}, w.Names(configMaps, "")); diff != "" {
			t.Errorf("what was dropped is nobody's: -want +got:\n%s", diff)
		}
	})
}

// TestKeptAsHelmDoes: what a chart drops stays if the object says so on the target, and only then; what goes with the
// item stays if the chart said so, whatever the case.
// Rule (helm.md#releases): Templates dropped by the new version are deleted, unless the object on the target says
// `keep`.
func TestKeptAsHelmDoes(t *testing.T) {
	t.Parallel()
	const kept = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, annotations: {helm.sh/resource-policy: %q}}\n"
	bothModes(t, func(t *testing.T, mode object) {
		t.Helper()
		w := newWorld(t)
		loud := charts.File("templates/loud.yaml", fmt.Sprintf(kept, "loud", "Keep "))
		item := w.item(w.config(chart("plain", loud, charts.File("templates/more.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n")), nil, mode))
		w.MustSucceed(item)
		w.Patch(configMaps, "more", `{"metadata":{"annotations":{"helm.sh/resource-policy":"keep"}}}`)
		w.setConfig(item, w.config(chart("plain", loud), nil, mode))
		w.mustChange(item, "keep ConfigMap %s/more")
		w.MustSucceed(item)
		w.MustDelete(item)
		if diff := cmp.Diff([]string{"loud", "more"}, w.Names(configMaps, "")); diff != "" {
			t.Errorf("what has stayed: -want +got:\n%s", diff)
		}
	})
}

// TestLookup: a template finds what is on the target, so that a random password is made once.
// Rule (helm.md#without-a-release): `lookup` reads the target.
func TestLookup(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode object) {
		t.Helper()
		w := newWorld(t)
		item := w.item(w.config(chart("lookup"), nil, mode))
		w.MustSucceed(item)
		made := w.Get(secrets, "shop-lookup").Object["data"].(object)["password"]
		w.setConfig(item, w.config(chart("lookup", charts.File("templates/more.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n")), nil, mode))
		w.MustSucceed(item)
		if got := w.Get(secrets, "shop-lookup").Object["data"].(object)["password"]; got != made || w.Get(configMaps, "more") == nil {
			t.Errorf("expected the same password and one more object, but found %t", got == made)
		}
		w.MustDelete(item)
	})
	t.Run("fails", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.Requests.Fail(func(r *http.Request) error {
			if strings.HasSuffix(r.URL.Path, "/secrets/shop-lookup") {
				return errors.New("the network is gone")
			}
			return nil
		})
		item := w.item(w.config(chart("lookup"), nil))
		w.MustFail(w.Do(plugintest.Reconcile, item), nil, "lookup/templates/secret.yaml:3:", "the network is gone")
		w.Requests.Undisturbed()
		w.MustSucceed(item)
		w.MustDelete(item)
	})
}

// TestNoObject: what a template renders that is no object is left out without a release, as Landscaper does, and
// refused with one, as Helm does.
// Rule (helm.md#without-a-release): A template without an object is ignored with an event, and an error with a release.
func TestNoObject(t *testing.T) {
	t.Parallel()
	templates := map[string]string{
		"motd.txt":    "Welcome to the shop",
		"README.md":   "# Shop\n\n*.example.org: [\n",
		"prices.yaml": "- one\n- two\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: prices}\n",
		"more.yaml":   "size: 3\n",
	}
	source := func(names ...string) object {
		var opts []charts.Option
		for _, name := range names {
			opts = append(opts, charts.File("templates/"+name, templates[name]))
		}
		return chart("plain", opts...)
	}
	w := newWorld(t)
	item := w.item(w.config(source("motd.txt", "README.md", "prices.yaml", "more.yaml"), nil, withoutRelease))
	said := w.mustWarn(w.MustSucceed(item), "IgnoredTemplate")
	for name := range templates {
		if !strings.Contains(said, "plain/templates/"+name) {
			t.Errorf("expected an event that names %s, but found %q", name, said)
		}
		w.MustFail(w.Do(plugintest.Reconcile, w.itemOf("released", w.config(source(name), nil))), plugintest.ConfigurationProblem, "plain/templates/"+name)
	}
	if w.Get(configMaps, "prices") == nil {
		t.Error("what is an object in such a template is missing")
	}
	w.MustDelete(item)
}

// TestBrokenCharts: the error says where in the chart, and what, and hides values.
// Rule (helm.md#troubleshooting): The error of a broken chart names the place and hides values.
func TestBrokenCharts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		chart  object
		parts  []string
	}{
		"required": {reason: "the author's words", parts: []string{"broken.yaml:9:", "owner is required: say who owns the shop"}},
		"fail":     {reason: "the author's words", parts: []string{"broken.yaml:11:", "the shop cannot be deployed like this"}},
		"nil":      {reason: "the expression", parts: []string{"broken.yaml:13:", ".Values.shop.owner.name"}},
		"function": {reason: "the function", parts: []string{"broken.yaml:15:", "index"}},
		"include":  {reason: "the template that is missing", parts: []string{"broken.yaml:17:", "broken.missing"}},
		"syntax": {
			reason: "it cannot be parsed", chart: chart("broken", charts.SyntaxError()),
			parts: []string{charts.SyntaxTemplate, fmt.Sprintf("syntax.yaml:%d)", charts.SyntaxLine)},
		},
		"yaml":      {reason: "it renders no YAML", parts: []string{"YAML parse error"}},
		"duplicate": {reason: "one name twice", parts: []string{`ConfigMap "shop-broken"`, "has rendered already"}},
		"unknown":   {reason: "no kind of this cluster", parts: []string{"Nothing"}},
		"rejected":  {reason: "the API server's words", parts: []string{"shop-rejected", "a valid config key"}},
	} {
		for mode, fields := range map[string]object{"with a release": {}, "without": withoutRelease} {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				source, parts := chart("broken"), append(slices.Clone(c.parts), charts.BrokenTemplate)
				if c.chart != nil {
					source, parts = c.chart, c.parts
				}
				if name == "unknown" { // Helm names the object
					parts = c.parts
				}
				item := w.item(w.config(source, object{"failure": name, "password": "my-own-secret"}, fields))
				result := w.Do(plugintest.Reconcile, item)
				if result.Failed == nil {
					t.Fatalf("%s: expected a failure, but found: %s", c.reason, result)
				}
				for _, part := range parts {
					if !strings.Contains(result.String(), part) {
						t.Errorf("%s: expected %q, but found: %s", c.reason, part, result)
					}
				}
				w.mustHide(result, "my-own-secret")
				w.MustDelete(item)
			})
		}
	}
}

// TestLargeValues: a megabyte of values comes to the target as it is, and is not deployed again.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	texts := object{}
	for i := range 4 {
		texts[fmt.Sprintf("t%d", i)] = strings.Repeat(fmt.Sprintf("%d. The quick brown fox jumps over the lazy dog. ", i), 256<<10/48)
	}
	item := w.item(w.config(chart("large"), object{"texts": texts, "objects": 0}))
	w.MustSucceed(item)
	for i := range 4 {
		name := fmt.Sprintf("t%d", i)
		if got := w.Get(configMaps, "shop-text-"+name).Object["data"].(object)["text"]; got != texts[name] {
			t.Errorf("%s is not what was given", name)
		}
	}
	w.Requests.Take()
	plugintest.NewJob(item)
	w.MustSucceed(item)
	if writes := w.Requests.Writes(); len(writes) > 0 {
		t.Errorf("expected no write without a change, but found %v", writes)
	}
	w.MustDelete(item)
	if got := w.Names(configMaps, ""); len(got) > 0 {
		t.Errorf("after the deletion there is still %v", got)
	}
}
