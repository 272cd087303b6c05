package deployer_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
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

const randomData = "data: {random: {{ randAlphaNum 9 }}}"

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

// once is a Job in a chart, with more fields of its spec.
func once(fields string) charts.Option {
	return charts.File("templates/once.yaml", `apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  `+fields+`
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}
`)
}

// deletesItself has the Job deleted after its end.
const deletesItself = "ttlSecondsAfterFinished: 0"

// vanish deletes the Job, as its controller does after its end.
func (w *world) vanish() {
	background := metav1.DeletePropagationBackground
	err := w.Objects(jobs).Delete(w.Context(), "once", metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		w.Error(err)
	}
}

// mustRunJob checks the number of creations of the Job since the last look.
func (w *world) mustRunJob(times int) {
	w.Helper()
	created := 0
	for _, r := range w.Requests.Take() {
		if strings.HasPrefix(r, "POST ") && strings.HasSuffix(r, "/jobs") {
			created++
		}
	}
	if created != times {
		w.Errorf("expected the Job to be created %d times, but found %d", times, created)
	}
}

func startJobOfHook(item *landscaper.DeployItem) {
	plugintest.NewJob(item)
	item.Status.Conditions = []landscaper.Condition{{
		Type: hook.ConditionStarted, Status: landscaper.ConditionTrue,
		Reason: hook.ReasonStartedByHook, Message: item.Status.JobID,
	}}
}

// definition is a CustomResourceDefinition of a group of its own, since all tests share one cluster.
type definition struct {
	group     string
	resources plugintest.Resource
}

func (w *world) definition() definition {
	group := w.Namespace + ".example.org"
	w.DeleteAfter(plugintest.CRDs, "gadgets."+group)
	return definition{group: group, resources: plugintest.Resource{Group: group, Version: "v1", Resource: "gadgets"}}
}

// chart returns a chart with the definition, with a number of fields of spec, and an object of its kind.
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

// fields returns the number of fields of the definition on the target in spec; zero without a definition.
func (d definition) fields(w *world) int {
	w.Helper()
	o := w.Get(plugintest.CRDs, "gadgets."+d.group)
	if o == nil {
		return 0
	}
	versions := o.Object["spec"].(object)["versions"].([]any)
	spec := versions[0].(object)["schema"].(object)["openAPIV3Schema"].(object)["properties"].(object)["spec"].(object)
	return len(spec["properties"].(object))
}

// size returns that of the object; nil without one.
func (d definition) size(w *world) any {
	w.Helper()
	o := w.Get(d.resources, "shop")
	if o == nil {
		return nil
	}
	return o.Object["spec"].(object)["size"]
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
