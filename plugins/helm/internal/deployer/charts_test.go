package deployer_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// What a chart may consist of, with a release and without.

// TestDefinitions: those of crds/ are Helm's affair with a release, which creates them and no more, and ordinary
// objects without.
// Rule (helm.md#releases): `crds/` is created by the first installation, and neither updated nor deleted.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		d := w.definition()
		mustBe := func(fields int, size any) {
			w.Helper()
			if d.fields(w) != fields || d.size(w) != size {
				w.Errorf("expected %d fields and size %v, but found %d and %v", fields, size, d.fields(w), d.size(w))
			}
		}
		item := w.item(w.config(d.chart(0), nil))
		w.MustSucceed(item)
		mustBe(1, int64(3))
		w.mustDeploy(item, w.config(d.chart(1), object{"gadget": object{"size": 4}}))
		fields := map[bool]int{false: 1, true: 2}[w.plain]
		mustBe(fields, int64(4))

		// Custom resources are looked after as other objects are.
		w.Patch(d.resources, "shop", `{"spec":{"size":9}}`)
		plugintest.NewJob(item)
		w.mustTellDrift(w.MustSucceed(item), "Gadget "+w.Namespace+"/shop: spec.size")
		mustBe(fields, int64(4))
		w.Delete(d.resources, "shop")
		plugintest.NewJob(item)
		w.mustTellDrift(w.MustSucceed(item), "Gadget "+w.Namespace+"/shop was missing")
		mustBe(fields, int64(4))

		w.MustDelete(item)
		mustBe(map[bool]int{false: 1}[w.plain], nil)
	})
}

// TestSchemaOfValues: the error names the chart and the paths, and repeats no value; skipSchemaValidation does without.
// Rule (helm.md#releases): `values.schema.json` is validated first, and the error shows no values.
func TestSchemaOfValues(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		wrong := object{"name": "Shop-7", "copies": 9, "password": "short-pass"}
		item := w.item(w.config(chart("schema"), wrong))
		result := w.mustRefuse(item, "schema of the chart", "at '/name': '***' does not match pattern '^[a-z]+$'",
			"at '/copies': maximum: got 9, want 5", "at '/password': minLength")
		w.mustHide(result, "Shop-7", "short-pass")
		w.mustWriteNothing()
		w.mustDeploy(item, w.config(chart("schema"), wrong, options(object{"skipSchemaValidation": true}, "install")))
		if got := w.data("shop-shop")["copies"]; got != "9" {
			w.Errorf("expected the values as they are, but found %v", got)
		}
		w.MustDelete(item)
	})
}

// TestKeep: an object with helm.sh/resource-policy: keep stays, when the chart drops it and when the item is deleted.
// Rule (helm.md#deletion): An object with `helm.sh/resource-policy: keep` stays.
func TestKeep(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		item := w.item(w.config(chart("keep"), nil))
		w.MustSucceed(item)
		w.MustDelete(item)
		w.mustHold("shop-keep-archive")
		// What has stayed is taken into the next release of that name.
		item = w.item(w.config(chart("keep"), object{"greeting": "again"}))
		w.MustSucceed(item)
		if got := w.data("shop-keep-archive")["greeting"]; got != "again" {
			w.Errorf("expected that the object is deployed again, but found %v", got)
		}
		w.mustDeploy(item, w.config(chart("keep", charts.Without("templates/archive.yaml")), nil))
		w.mustHold("shop-keep-archive", "shop-keep-greeting")
		w.MustDelete(item)
		w.mustHold("shop-keep-archive")
	})
}

// TestKeptAsHelmDoes: what a chart drops stays if the object says so on the target, and only then; what goes with the
// item stays if the chart said so, whatever the case.
// Rule (helm.md#releases): Templates dropped by the new version are deleted, unless the object on the target says
// `keep`.
func TestKeptAsHelmDoes(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		loud := configMap("loud", `, annotations: {helm.sh/resource-policy: "Keep "}`)
		item := w.item(w.config(chart("plain", loud, configMap("more", "")), nil))
		w.MustSucceed(item)
		w.Patch(configMaps, "more", `{"metadata":{"annotations":{"helm.sh/resource-policy":"keep"}}}`)
		w.setConfig(item, w.config(chart("plain", loud), nil))
		w.mustChange(item, "keep ConfigMap %s/more")
		w.MustSucceed(item)
		w.MustDelete(item)
		w.mustHold("loud", "more")
	})
}

// TestLookup: a template finds what is on the target, so that a random password is made once.
// Rule (helm.md#without-a-release): `lookup` reads the target.
func TestLookup(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		password := func() any { return w.MustGet(secrets, "shop-lookup").Object["data"].(object)["password"] }
		item := w.item(w.config(chart("lookup"), nil))
		w.MustSucceed(item)
		made := password()
		w.mustDeploy(item, w.config(chart("lookup", configMap("more", "")), nil))
		w.mustHold("more")
		if password() != made {
			w.Error("expected the same password")
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
		w.MustFail(w.call(item), nil, "lookup/templates/secret.yaml:3:", "the network is gone")
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
	result := w.MustSucceed(item)
	for name := range templates {
		w.mustWarn(result, "IgnoredTemplate", "plain/templates/"+name)
		w.mustRefuse(w.itemOf("released", w.config(source(name), nil)), "plain/templates/"+name)
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
		"required": {
			reason: "the author's words", parts: []string{"broken.yaml:9:", "owner is required: say who owns the shop"},
		},
		"fail": {
			reason: "the author's words", parts: []string{"broken.yaml:11:", "the shop cannot be deployed like this"},
		},
		"nil":      {reason: "the expression", parts: []string{"broken.yaml:13:", ".Values.shop.owner.name"}},
		"function": {reason: "the function", parts: []string{"broken.yaml:15:", "index"}},
		"include":  {reason: "the template that is missing", parts: []string{"broken.yaml:17:", "broken.missing"}},
		"syntax": {
			reason: "it cannot be parsed", chart: chart("broken", charts.SyntaxError()),
			parts: []string{charts.SyntaxTemplate, fmt.Sprintf("syntax.yaml:%d)", charts.SyntaxLine)},
		},
		"yaml":      {reason: "it renders no YAML", parts: []string{"YAML parse error"}},
		"duplicate": {reason: "one name twice", parts: []string{`ConfigMap "shop-broken"`, "has rendered it already"}},
		"unknown":   {reason: "no kind of this cluster", parts: []string{"Nothing"}},
		"rejected":  {reason: "the API server's words", parts: []string{"shop-rejected", "a valid config key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, parts := chart("broken"), append(slices.Clone(c.parts), charts.BrokenTemplate)
			if c.chart != nil {
				source, parts = c.chart, c.parts
			}
			if name == "unknown" { // Helm names the object
				parts = c.parts
			}
			bothModes(t, func(w *world) {
				item := w.item(w.config(source, object{"failure": name, "password": "my-own-secret"}))
				result := w.call(item)
				if result.Failed == nil {
					w.Fatalf("%s: expected a failure, but found: %s", c.reason, result)
				}
				for _, part := range parts {
					if !strings.Contains(result.String(), part) {
						w.Errorf("%s: expected %q, but found: %s", c.reason, part, result)
					}
				}
				w.mustHide(result, "my-own-secret")
				w.MustDelete(item)
			})
		})
	}
}

// TestLargeValues: a megabyte of values comes to the target as it is, and is not deployed again.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	texts := object{}
	for i := range 4 {
		sentence := fmt.Sprintf("%d. The quick brown fox jumps over the lazy dog. ", i)
		texts[fmt.Sprintf("t%d", i)] = strings.Repeat(sentence, 256<<10/len(sentence))
	}
	item := w.item(w.config(chart("large"), object{"texts": texts, "objects": 0}))
	w.MustSucceed(item)
	for name, text := range texts {
		if w.data("shop-text-" + name)["text"] != text {
			t.Errorf("expected the given text of %s", name)
		}
	}
	w.mustDoNothing(item)
	w.MustDelete(item)
	w.mustHold()
}

// TestSecretsInErrors: what the API server quotes of an object that it refuses may be a secret.
// Rule (helm.md#security): Errors hide an API server's quotes of an object.
func TestSecretsInErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, template string
	}{
		"value": {
			reason: "a string of the item's values", template: `apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {type: {{ .Values.password }}, ports: [{port: 80}]}
`,
		},
		"number": {
			reason: "a password without quotes", template: `apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {ports: [{port: {{ .Values.pin }}}]}
`,
		},
		"Secret of the chart": {
			reason: "what the chart makes a secret of", template: `apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}, annotations: {"a key": x}}
stringData: {password: made-by-the-chart}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {type: made-by-the-chart, ports: [{port: 80}]}
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothModes(t, func(w *world) {
				values := object{"password": "my-own-secret", "pin": 12345678}
				item := w.item(w.config(chart("plain", charts.File("templates/bad.yaml", c.template)), values))
				w.mustHide(w.mustRefuse(item, "plain/templates/bad.yaml", "Service"),
					"my-own-secret", "12345678", "made-by-the-chart")
				if w.Failed() {
					w.Log(c.reason)
				}
				w.MustDelete(item)
			})
		})
	}
}
