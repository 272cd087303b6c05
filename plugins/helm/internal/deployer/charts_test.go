package deployer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// What a chart may consist of, with a release and without.

// TestDefinitions: those of crds/ are Helm's affair with a release, which creates them and no more, and ordinary
// objects without.
// Rule (helm.md#releases): `crds/` is created by the first installation, and neither updated nor deleted.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		definition, gadgets := w.CRD("Gadget")
		config := func(version string, size int) object {
			definition["metadata"].(object)["labels"] = object{"version": version}
			return w.config(chart("plain", charts.File("crds/gadgets.yaml", string(w.Marshal(definition))),
				charts.File("templates/gadget.yaml", fmt.Sprintf("apiVersion: %s\nkind: Gadget\nmetadata: {name: shop}\n"+
					"spec: {size: %d}\n", gadgets.GroupVersion(), size))), nil)
		}
		mustBe := func(version string, size any) {
			w.Helper()
			var gotVersion string
			if o := w.Get(plugintest.CRDs, gadgets.Resource+"."+gadgets.Group); o != nil {
				gotVersion = o.GetLabels()["version"]
			}
			var gotSize any
			if o := w.Get(gadgets, "shop"); o != nil {
				gotSize = o.Object["spec"].(object)["size"]
			}
			if gotVersion != version || gotSize != size {
				w.Errorf("expected version %q and size %v, but found %q and %v", version, size, gotVersion, gotSize)
			}
		}
		item := w.item(config("one", 3))
		w.MustSucceed(item)
		mustBe("one", int64(3))
		w.mustDeploy(item, config("two", 4))
		version, after := "one", "one"
		if w.plain {
			version, after = "two", ""
		}
		mustBe(version, int64(4))

		// Custom resources are looked after as other objects are.
		w.Patch(gadgets, "shop", `{"spec":{"size":9}}`)
		plugintest.NewJob(item)
		w.mustTellDrift(w.MustSucceed(item), "Gadget "+w.Namespace+"/shop: spec.size")
		mustBe(version, int64(4))
		w.Delete(gadgets, "shop")
		plugintest.NewJob(item)
		w.mustTellDrift(w.MustSucceed(item), "Gadget "+w.Namespace+"/shop was missing")
		mustBe(version, int64(4))

		w.MustDelete(item)
		mustBe(after, nil)
	})
}

// TestSchemaOfValues: the error names the chart and the paths, and repeats no value; skipSchemaValidation does without.
// Rule (helm.md#releases): `values.schema.json` is validated first, and the error shows no values.
// Rule (helm.md#helm-options): `skipSchemaValidation` skips the schema of the chart.
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

// TestBrokenCharts: the error says where in the chart, and what, and hides values. More of them are in the tests of
// package helm3.
// Rule (helm.md#troubleshooting): The error of a broken chart names the place and hides values.
func TestBrokenCharts(t *testing.T) {
	t.Parallel()
	for failure, parts := range map[string][]string{
		"required": {charts.BrokenTemplate, "broken.yaml:9:", "owner is required: say who owns the shop"},
		"fail":     {charts.BrokenTemplate, "broken.yaml:11:", "the shop cannot be deployed like this"},
		"rejected": {charts.BrokenTemplate, "shop-rejected", "a valid config key"},
		"unknown":  {"Nothing"}, // Helm names the object
	} {
		t.Run(failure, func(t *testing.T) {
			t.Parallel()
			bothModes(t, func(w *world) {
				item := w.item(w.config(chart("broken"), object{"failure": failure, "password": "my-own-secret"}))
				result := w.call(item)
				if result.Failed == nil {
					w.Fatalf("expected a failure, but found: %s", result)
				}
				for _, part := range parts {
					if !strings.Contains(result.String(), part) {
						w.Errorf("expected %q, but found: %s", part, result)
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

// TestSecretsInErrors: what the API server quotes of an object that it refuses may be a secret. With a release it is
// TestClusterErrors of package helm3.
// Rule (helm.md#security): Errors hide an API server's quotes of an object.
func TestSecretsInErrors(t *testing.T) {
	t.Parallel()
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: {{ .Release.Name }}}\n"
	for name, template := range map[string]string{
		"value":  service + "spec: {type: {{ .Values.password }}, ports: [{port: 80}]}\n",
		"number": service + "spec: {ports: [{port: {{ .Values.pin }}}]}\n",
		"Secret of the chart": service + "spec: {type: made-by-the-chart, ports: [{port: 80}]}\n---\n" +
			"apiVersion: v1\nkind: Secret\nmetadata: {name: {{ .Release.Name }}, annotations: {\"a key\": x}}\n" +
			"stringData: {password: made-by-the-chart}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothModes(t, func(w *world) {
				values := object{"password": "my-own-secret", "pin": 12345678}
				item := w.item(w.config(chart("plain", charts.File("templates/bad.yaml", template)), values))
				w.mustHide(w.mustRefuse(item, "plain/templates/bad.yaml", "Service"),
					"my-own-secret", "12345678", "made-by-the-chart")
				w.MustDelete(item)
			})
		})
	}
}

// TestDefinitionOfARelease: a definition in the templates goes with the release, unless others have resources of it.
// Rule (helm.md#deletion): A definition in the templates of a release stays with resources of others.
func TestDefinitionOfARelease(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]bool{"of nobody else": false, "of others": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			definition, resource := w.CRD("Vase")
			template := charts.File("templates/vase.yaml", string(w.Marshal(definition)))
			item := w.item(w.config(chart("plain", template), nil))
			w.MustSucceed(item)
			if others {
				w.Create(resource, object{
					"apiVersion": resource.Group + "/v1", "kind": "Vase",
					"metadata": object{"name": "theirs", "namespace": w.Namespace},
				})
			}
			w.MustDelete(item)
			if stays := w.Get(plugintest.CRDs, resource.Resource+"."+resource.Group) != nil; stays != others {
				t.Errorf("expected that it stays: %t, but found %t", others, stays)
			}
		})
	}
}

// chartWarnings returns the messages of the events about Helm's warnings.
func chartWarnings(result *sdktest.Result) (all []string) {
	for _, m := range result.Messages {
		if m.Event != nil && m.Event.Reason == "ChartWarning" {
			all = append(all, m.Event.Message)
		}
	}
	return all
}

// TestChartWarnings: Helm's warnings are one line of a preview and one event of a job.
// Rule (helm.md#the-helm-deployer): A warning of Helm about a chart and its values is one event of a job and one line
// of a preview.
func TestChartWarnings(t *testing.T) {
	t.Parallel()
	const want = `Helm warns: Condition path 'sessions.enabled' for chart sessions returned non-bool value; ` +
		`an object is left out, since its annotation helm.sh/hook names an unknown hook: "pre-instal"`
	c := chart("parent", hooked("hook", "pre-instal"))
	bothModes(t, func(w *world) {
		w.withProcesses()
		item := w.item(w.config(c, object{"sessions": object{"enabled": "false"}}, w.untilOpen()))
		changes, err := w.Plugin.Diff(w.Context(), w.CallOf(item))
		if err != nil || len(changes) < 2 {
			w.Fatalf("expected several changes, but found %v, %v", changes, err)
		}
		line := sdk.Change{Object: "Chart of " + w.Namespace + "/shop", Action: sdk.ActionUpdate, Note: want}
		if diff := cmp.Diff(line, changes[0]); diff != "" {
			w.Errorf("-want +got:\n%s", diff)
		}
		for _, told := range [][]string{{want}, nil} {
			if diff := cmp.Diff(told, chartWarnings(w.call(item))); diff != "" {
				w.Errorf("-want +got:\n%s", diff)
			}
		}
		w.mustChange(item)
		w.MustDelete(item)
	})
	t.Run("another release", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t).withProcesses()
		item := w.item(w.config(c, nil))
		w.MustSucceed(item)
		result := w.mustDeploy(item, w.config(c, nil, object{"name": "other"}))
		if got := chartWarnings(result); len(got) != 1 || !strings.Contains(got[0], "pre-instal") {
			t.Errorf("expected one event, but found %q", got)
		}
		w.MustDelete(item)
	})
}
