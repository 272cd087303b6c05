package apply_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// gadgets returns a CustomResourceDefinition of a group that only this test has, and a resource of it.
func (w *world) gadgets() (definition, gadget fields) {
	definition, resource := w.CRD("Gadget")
	return definition, w.object(resource.GroupVersion().String(), "Gadget", "g", "spec: {size: 3}")
}

// TestStages applies a resource, its namespace and its definition, in the wrong order.
// Rule (manifest.md#order): Cluster-scoped objects come before namespaced ones, whatever the order of the manifests.
func TestStages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, gadget := w.gadgets()
	w.Namespace += "-new"
	namespace := plugintest.Fields(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + w.Namespace + `}}`)
	inside := w.ConfigMap("inside", nil)
	all := []desired.Manifest{
		manifest(edit(gadget, `metadata: {namespace: `+w.Namespace+`}`)), manifest(inside), manifest(namespace),
		manifest(definition),
	}
	changes := w.diff(all...)
	notes := map[string]string{}
	for _, c := range changes {
		if c.Action != sdk.ActionCreate || c.After == nil {
			t.Errorf("expected a creation, but found %+v", c)
		}
		notes[strings.Fields(c.Object)[0]] = c.Note
	}
	if len(changes) != 4 || !strings.HasPrefix(changes[0].Object, "CustomResourceDefinition") ||
		!strings.Contains(notes["Gadget"], "kind is not served yet") ||
		!strings.Contains(notes["ConfigMap"], "namespace does not exist yet") {
		t.Errorf("expected four creations in order, two with notes, but found %v", notes)
	}
	// A namespace that is ignored is not created.
	w.mustForesee(sdk.ActionFail, "", manifest(inside), manifest(namespace, policy(managedresource.PolicyIgnore)))
	w.eventually(all...)
	w.Requests.Verbs()
	w.mustRun(all...)
	w.mustRequest("GET", "GET", "GET", "GET")
	w.mustForeseeNothing(all...)
}

// TestNothingElseBeforeDefinitions: while a CustomResourceDefinition is missing, nothing of the later stages is
// touched.
// Rule (manifest.md#order): CustomResourceDefinitions come first, and nothing else before they are established.
func TestNothingElseBeforeDefinitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, _ := w.gadgets()
	_, err := w.run(manifest(w.ConfigMap("a", nil)), manifest(edit(definition, "spec: {scope: Nonsense}")))
	w.mustFail(err, "ObjectRejected", true, "manifests[1].manifest: apply CustomResourceDefinition", "spec.scope")
	w.mustRequest("POST")
}

// TestDefinitionGone: the kind of an object in the inventory that is not served any more is an error, until it is
// defined again.
func TestDefinitionGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, gadget := w.gadgets()
	w.eventually(manifest(definition), manifest(gadget))
	w.Delete(plugintest.CRDs, definition["metadata"].(fields)["name"].(string))
	w.Eventually("the kind to be gone", func() bool {
		_, err := w.run(manifest(gadget))
		known := asError(err)
		return known != nil && known.Reason == "UnknownKind"
	})
	w.eventually(manifest(definition), manifest(gadget))
}

// TestServersBeforeWebhooks: a webhook that guards what answers it is there only when that is, and when it is ready if
// that is checked.
// Rule (manifest.md#order): A webhook configuration is written only after its servers are ready.
func TestServersBeforeWebhooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	build := func(name string) []desired.Manifest {
		service := w.object("v1", "Service", name, `spec: {selector: {app: `+name+`}, ports: [{port: 443}]}`)
		hook := w.WebhookConfiguration(w.Namespace+"-"+name, name, "CREATE", deployments)
		w.DeleteAfter(plugintest.Webhooks, w.Namespace+"-"+name)
		return []desired.Manifest{manifest(hook), manifest(w.Deployment(name, 1)), manifest(service)}
	}
	guards := func(name string) bool { return w.Get(plugintest.Webhooks, w.Namespace+"-"+name) != nil }

	w.awaits = true
	all := build("ready")
	for range 2 {
		w.mustWait("ready, which ValidatingWebhookConfiguration", all...)
	}
	if guards("ready") {
		t.Error("the webhook is there before its server is ready")
	}
	w.Ready("ready")
	w.mustRun(all...)
	w.Patch(deployments, "ready", `{"status":{"availableReplicas":0}}`, "status")
	w.mustRun(all...) // nothing is to be written

	w.Delete(plugintest.Webhooks, w.Namespace+"-ready")
	w.Patch(deployments, "ready", `{"status":{"conditions":[{"type":"Progressing","status":"False",
		"reason":"ProgressDeadlineExceeded"}]}}`, "status")
	_, err := w.run(all...)
	w.mustFail(err, apply.ReasonFailed, true, "Deployment "+w.Namespace+"/ready, which it calls, has failed")

	w.awaits = false
	w.mustRun(build("unchecked")...)
	if !guards("unchecked") {
		t.Error("expected the webhook to be there")
	}
}

// TestUnreachable: a target that does not answer is no change, but an error of Diff.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan := w.mustPlan(manifest(w.ConfigMap("a", nil)))
	w.Requests.Fail(func(*http.Request) error { return http.ErrHandlerTimeout })
	changes, _, err := apply.Diff(t.Context(), w.client, plan, recordedIn(nil))
	w.mustFail(err, "TargetUnreachable", false, "manifests[0].manifest: compare ConfigMap", "cannot reach target cluster")
	if len(changes) > 0 {
		t.Errorf("expected no change, but found %+v", changes)
	}
}
