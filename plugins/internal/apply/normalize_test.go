package apply_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
)

// TestNoWriteWithoutChange is about objects that the API server stores differently from how their manifests are
// written: with defaults, other spellings of quantities, addresses of its own.
// Rule (manifest.md#update-strategies): With all strategies, an object in the desired state is not written.
func TestNoWriteWithoutChange(t *testing.T) {
	each(t, func(w *world) {
		for resource, o := range map[schema.GroupVersionResource]fields{
			deployments: w.Deployment("a", 2),
			services: w.object("v1", "Service", "a",
				`spec: {type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}`),
			jobs: w.job("a", "image:1"),
		} {
			w.beItem("item")
			m := manifest(o)
			w.mustRun(m)
			version := w.MustGet(resource, "a").GetResourceVersion()
			w.Requests.Verbs()
			w.mustRun(m)
			w.mustRequest("GET")

			w.forgetHashes()
			w.mustRun(m)
			w.mustBeDry()
			w.mustRun(m)
			w.mustRequest("GET")

			w.beItem("item")
			w.mustRun(m)
			w.mustBeDry("POST")
			w.mustForeseeNothing(m)
			if after := w.MustGet(resource, "a").GetResourceVersion(); after != version {
				w.Errorf("%s: the object was written: %s became %s", resource.Resource, version, after)
			}

			w.Requests.Verbs()
			w.mustRun(manifest(edit(o, "metadata: {labels: {changed: 'yes'}}")))
			verb := "PUT"
			if w.strategy == byPatch || w.strategy == byApply {
				verb = "PATCH"
			}
			w.mustRequest("GET", verb)
			if w.MustGet(resource, "a").GetLabels()["changed"] != "yes" {
				w.Errorf("%s: the change was not written", resource.Resource)
			}
		}
	})
}

// TestRespeltValuesAreWrittenOnce: the API server spells a quantity in another way than the manifest or the patch. A
// controller then adds to the object what nobody has named. Neither is a reason to write again, or the two would go on
// for ever.
func TestRespeltValuesAreWrittenOnce(t *testing.T) {
	each(t, func(w *world) {
		for name, patch := range map[string]string{
			"manifest": "",
			"patch": `spec: {template: {spec: {terminationGracePeriodSeconds: 5, overhead: {cpu: 1000m},
				runtimeClassName: class}}}`,
		} {
			now := func(image, revision string) desired.Manifest {
				m := manifest(edit(w.Deployment(name, 1), `spec: {template: {spec: {containers: [
					{name: main, image: "`+image+`", resources: {limits: {cpu: 1000m}}}]}}}`), patchAfter(patch))
				w.mustRun(m)
				w.Patch(deployments, name, `{"metadata":{"annotations":{"deployment.kubernetes.io/revision":"`+revision+`"}}}`)
				return m
			}
			now("image:1", "1")
			m := now("image:2", "2")
			w.Requests.Verbs()
			w.mustRun(m)
			w.mustRequest("GET")
		}
	})
}

// TestDiffOfFirstApply: a dry run cannot show which fields go when an object is applied for the first time after it was
// written otherwise. So the difference at least says that there is one.
func TestDiffOfFirstApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.ConfigMap("a", fields{"a": "x", "b": "w"})))
	w.Patch(configMaps, "a", `{"data":{"theirs":"2"}}`)
	after := manifest(w.ConfigMap("a", fields{"a": "x"}), strategy(byApply))
	w.mustForesee(sdk.ActionUpdate, "fields that are no longer in the manifest are removed", after)
	w.mustRun(after)
	w.mustHave("a", fields{"a": "x", "theirs": "2"}) // fields of others stay, ours go
	w.mustForeseeNothing(after)
}

// TestFieldsOfClientSideApply: what a client without server-side apply has made is ours when it is applied first, so
// that a field goes that leaves the manifest later. What others write after that is theirs.
func TestFieldsOfClientSideApply(t *testing.T) {
	t.Parallel()
	for _, manager := range []string{"kubectl-client-side-apply", "manifest-deployer-controller"} {
		t.Run(manager, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.strategy = byApply
			web := withEnv(w.Deployment("web", 2), `{name: KEEP, value: "1"}, {name: DEBUG, value: "1"}`)
			_, err := w.Objects(deployments).Create(t.Context(), &unstructured.Unstructured{Object: edit(web, "")},
				metav1.CreateOptions{FieldManager: manager})
			if err != nil {
				t.Fatal(err)
			}
			w.mustRun(manifest(web))
			w.patchAs(manager, deployments, types.MergePatchType, `{"metadata":{"annotations":{"theirs":"yes"}}}`)

			less := manifest(withEnv(web, `{name: KEEP, value: "1"}`))
			w.mustForesee(sdk.ActionUpdate, "", less)
			w.mustRun(less)
			live := w.MustGet(deployments, "web")
			if diff := cmp.Diff(any([]any{fields{"name": "KEEP", "value": "1"}}), envOf(live)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if live.GetAnnotations()["theirs"] != "yes" {
				t.Errorf("expected the annotation of another client to stay, but found %v", live.GetAnnotations())
			}
		})
	}
}

// patchAs changes the object "web" as a manager does.
func (w *world) patchAs(manager string, resource plugintest.Resource, kind types.PatchType, patch string) {
	w.Helper()
	w.patchNamed("web", manager, resource, kind, patch)
}

func (w *world) patchNamed(
	name, manager string, resource plugintest.Resource, kind types.PatchType, patch string,
) {
	w.Helper()
	options := metav1.PatchOptions{FieldManager: manager}
	if _, err := w.Objects(resource).Patch(w.Context(), name, kind, []byte(patch), options); err != nil {
		w.Fatal(err)
	}
}
