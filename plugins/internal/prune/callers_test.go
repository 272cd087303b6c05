package prune_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// guarded returns a ConfigMap and the configuration of a webhook over which it cannot be deleted, and waits until that
// is so.
func (w *world) guarded(name string) (configuration, configMap entry) {
	w.Helper()
	configMap = w.configMap(name)
	hook := w.WebhookConfiguration(w.Namespace+"-"+name, "gone", "DELETE", configMaps)
	configuration = w.create(plugintest.Webhooks, "", w.Namespace+"-"+name, map[string]any{"webhooks": hook["webhooks"]})
	w.Eventually("the webhook to be asked", func() bool {
		dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		err := w.Objects(configMaps).Delete(w.Context(), name, dry)
		return err != nil && strings.Contains(err.Error(), "failed calling webhook")
	})
	return configuration, configMap
}

const scopes = `{"predefinedResourceGroup":{"type":"namespaced-resources"}},
	{"predefinedResourceGroup":{"type":"cluster-scoped-resources"}}`

// TestWebhooksDoNotBlockDeletions: a webhook of the deploy item whose server is gone.
// Rule (manifest.md#deletion): A webhook of an item without its server does not block the item's deletion.
func TestWebhooksDoNotBlockDeletions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, groups string
		// says is in the error of the first call; empty for none that is expected.
		says  string
		stays bool
	}{
		"default": {reason: "the configuration is first"},
		"later":   {reason: "the group that takes it need not wait", groups: "[" + scopes + "]", says: "deleted just now"},
		"not at all": {
			reason: "no group takes it", groups: `[{"predefinedResourceGroup":{"type":"namespaced-resources"}}]`,
			says: ": delete it, or let a deletion group take it", stays: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			configuration, configMap := w.guarded("guard")
			d := w.deletion(c.groups, configMap, configuration)
			_, err := w.run(d)
			if c.says != "" {
				const named = " to ValidatingWebhookConfiguration "
				if err == nil || !strings.Contains(err.Error(), named) || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("%s: expected an error that says %q, but found %v", c.reason, c.says, err)
				}
			}
			if c.stays {
				w.mustBe("there", configMap, configuration)
				return
			}
			// The API server asks the webhook for a moment after its configuration is gone.
			w.Eventually("the deletion to be complete", func() bool {
				result, err := w.run(d)
				return err == nil && len(result.Waiting) == 0
			})
			w.mustBe("gone", configMap, configuration)
		})
	}
}

// TestConvertedResourcesGoBeforeTheirServer: what a Service of the deploy item converts is gone before that is deleted.
// Rule (manifest.md#deletion): Resources converted by a Service of the item go before it.
func TestConvertedResourcesGoBeforeTheirServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, resource := w.crd("Lamp")
	w.patch(crds, "", definition.Resource.Name, `{"spec":{"conversion":{"strategy":"Webhook","webhook":{
		"conversionReviewVersions":["v1"],
		"clientConfig":{"service":{"namespace":"`+w.Namespace+`","name":"converter"}}}}}}`)
	service := w.create(plugintest.Services, w.Namespace, "converter", map[string]any{
		"kind": "Service", "spec": map[string]any{"ports": []any{map[string]any{"port": int64(443)}}},
	})
	lamp := w.create(resource, w.Namespace, "lamp", map[string]any{
		"kind": "Lamp", "metadata": map[string]any{"finalizers": []any{hold}},
	})
	d := w.deletion("", service, definition, lamp)
	w.mustWaitFor(w.mustRun(d), "Lamp")
	w.mustBe("there", service, definition)
	w.patch(resource, w.Namespace, "lamp", `{"metadata":{"finalizers":null}}`)
	w.Eventually("the deletion to be complete", func() bool {
		result, err := w.run(d)
		return err == nil && len(result.Waiting) == 0
	})
	w.mustBe("gone", service, definition)
}
