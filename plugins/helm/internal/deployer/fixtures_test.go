package deployer_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// The parts of a configuration.

// chart returns a chart of the tests as an archive in the configuration.
func chart(name string, opts ...charts.Option) object {
	return object{"archive": object{"raw": base64.StdEncoding.EncodeToString(charts.Pack(name, opts...))}}
}

var withoutRelease = object{"helmDeployment": false}

// options returns the field helmDeploymentConfig with options of operations.
func options(options object, operations ...string) object {
	all := object{}
	for _, operation := range operations {
		all[operation] = options
	}
	return object{"helmDeploymentConfig": all}
}

// checks returns a readiness check of a ConfigMap of the chart: it waits for a value.
func (w *world) checks(configMap, jsonPath string) object {
	return object{"readinessChecks": object{"custom": []any{object{
		"name": configMap, "resourceSelector": []any{w.reference(configMap)},
		"requirements": []any{object{"jsonPath": jsonPath, "operator": "exists"}},
	}}}}
}

// reference is a reference to a ConfigMap.
func (w *world) reference(configMap string) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "name": configMap, "namespace": w.Namespace}
}

// untilOpen is a readiness check that waits until the ConfigMap "gate" of the chart has the annotation "open".
func (w *world) untilOpen() object { return w.checks("gate", ".metadata.annotations.open") }

func (w *world) open(gate string) {
	w.Patch(configMaps, gate, `{"metadata":{"annotations":{"open":"yes"}}}`)
}

// The parts of a chart.

// configMap is a template of a ConfigMap with some metadata beside its name, and more lines.
func configMap(name, metadata string, lines ...string) charts.Option {
	head := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s%s}\n", name, metadata)
	return charts.File("templates/"+name+".yaml", head+strings.Join(lines, "\n")+"\n")
}

// hooked is a template of a ConfigMap of a Helm hook.
func hooked(name, events string, lines ...string) charts.Option {
	return configMap(name, fmt.Sprintf(", annotations: {helm.sh/hook: %q}", events), lines...)
}

// random is a chart with other objects in each rendering: a text in the gate, and a Secret rendered only as long as it
// does not exist.
func random() object {
	return chart("plain", configMap("gate", "", "data: {text: {{ randAlphaNum 8 }}}"),
		charts.File("templates/once.yaml", `{{ if not (lookup "v1" "Secret" .Release.Namespace "once") }}
apiVersion: v1
kind: Secret
metadata: {name: once}
stringData: {password: {{ randAlphaNum 8 }}}
{{ end }}`))
}

// about is a template with the purpose of the rendering, and an object only for an installation.
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

// dataAbout is that of the object "about" of a revision; of none for 0.
func dataAbout(revision int) object {
	return object{"revision": strconv.Itoa(revision), "upgrade": strconv.FormatBool(revision > 1)}
}

// mustBeAbout checks the revision of the rendering on the target.
func (w *world) mustBeAbout(revision int) {
	w.Helper()
	if diff := cmp.Diff(dataAbout(revision), w.data("about")); diff != "" {
		w.Errorf("the deployed rendering: -want +got:\n%s", diff)
	}
}

// mustRender checks the objects for an HTTP hook, and the revision of their rendering if the chart tells it.
func (w *world) mustRender(item *landscaper.DeployItem, revision int, names ...string) {
	w.Helper()
	var got []string
	for _, child := range w.withHook(item).Children {
		got = append(got, child.Name)
		var o struct{ Data object }
		if err := json.Unmarshal(child.Object, &o); err != nil {
			w.Fatal(err)
		}
		if diff := cmp.Diff(dataAbout(revision), o.Data); child.Name == "ConfigMap about" && diff != "" {
			w.Errorf("the rendering: -want +got:\n%s", diff)
		}
	}
	if diff := cmp.Diff(names, got); diff != "" {
		w.Errorf("the objects: -want +got:\n%s", diff)
	}
}

// withHook is a call with the objects as changed by an HTTP hook: it annotates each.
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
		children[i].Object = w.Marshal(o)
	}
	call.Children = slices.Clone(children)
	return call
}

// mustSucceedWithHook carries a job out, and asks the hook before each call, as a host does.
func (w *world) mustSucceedWithHook(item *landscaper.DeployItem, operation plugintest.Operation) {
	w.Helper()
	for range 5 {
		result := w.DoCall(w.Context(), operation, w.withHook(item))
		if result.Succeeded != nil {
			return
		}
		w.mustWait(result)
	}
	w.Fatal("the job does not end")
}
