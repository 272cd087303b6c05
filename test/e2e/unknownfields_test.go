package e2e

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// fields that no type of ours knows, as those of a newer Landscaper would be.
var unknownFields = [][]string{{"spec", "future"}, {"spec", "onDelete", "future"}, {"status", "future"}, {"status", "transitionTimes", "future"}}

// preserveUnknownFields makes the schema of DeployItems that of a newer Landscaper, until the end of the test.
func preserveUnknownFields(t *testing.T) {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: "deployitems.landscaper.gardener.cloud"}
	if err := admin.Get(t.Context(), key, definition); err != nil {
		t.Fatal(err)
	}
	original := definition.DeepCopy()
	preserve := true
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, path := range unknownFields {
		properties := schema.Properties
		for _, field := range path[:len(path)-1] {
			next := properties[field]
			if next.Properties == nil {
				next.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
			}
			properties[field] = next
			properties = next.Properties
		}
		properties["future"] = apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: &preserve}
	}
	condition := schema.Properties["status"].Properties["conditions"].Items.Schema
	condition.Properties["future"] = apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: &preserve}
	if err := admin.Update(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := admin.Get(ctx, key, definition); err != nil {
			t.Error(err)
			return
		}
		definition.Spec = original.Spec
		if err := admin.Update(ctx, definition); err != nil {
			t.Error(err)
		}
	})
}

func TestUnknownFieldsSurviveAJob(t *testing.T) {
	preserveUnknownFields(t)
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	// A job that waits writes the list of conditions, of which one is somebody else's.
	known := newItem(namespace, "item", probeType, probeConfig(dir, "waitFor"))
	create(t, known)

	value := map[string]any{"nested": []any{"text", int64(7), map[string]any{"deep": true}}}
	item := &unstructured.Unstructured{}
	item.SetGroupVersionKind(v1alpha1.DeployItemGVK)
	// A new schema takes effect a moment after it was written.
	eventually(t, "the API server to keep fields of a newer schema", func(ctx context.Context) (string, error) {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(known), item); err != nil {
			return "", err
		}
		for _, path := range unknownFields {
			if err := unstructured.SetNestedField(item.Object, value, path...); err != nil {
				return "", err
			}
		}
		foreign := map[string]any{
			"type": "Foreign", "status": "True", "reason": "R", "message": "m", "future": value,
			"lastTransitionTime": "2021-04-15T12:10:51Z", "lastUpdateTime": "2021-04-15T12:10:51Z",
		}
		if err := unstructured.SetNestedSlice(item.Object, []any{foreign}, "status", "conditions"); err != nil {
			return "", err
		}
		status := item.Object["status"]
		if err := admin.Update(ctx, item); err != nil {
			return "", err
		}
		item.Object["status"] = status
		if err := unstructured.SetNestedField(item.Object, int64(0), "status", "observedGeneration"); err != nil {
			return "", err
		}
		if err := admin.Status().Update(ctx, item); err != nil {
			return "", err
		}
		return lost(item, value), nil
	})

	jobID := setJob(t, known)
	waitFor(t, known, "waiting", func(i *v1alpha1.DeployItem) bool { return conditionOf(i, "Reconciling").Message != "" })
	touch(t, dir+"/waitFor")
	known = waitFinished(t, known, jobID)

	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(known), item); err != nil {
		t.Fatal(err)
	}
	if text := lost(item, value); text != "" {
		t.Errorf("after the job: %s", text)
	}
}

// lost says which unknown field does not have the value any more.
func lost(item *unstructured.Unstructured, value any) string {
	for _, path := range unknownFields {
		found, _, err := unstructured.NestedFieldNoCopy(item.Object, path...)
		if err != nil {
			return err.Error()
		}
		if diff := cmp.Diff(value, found); diff != "" {
			return "field " + path[0] + "…" + path[len(path)-2] + ".future (-want +got):\n" + diff
		}
	}
	conditions, _, err := unstructured.NestedSlice(item.Object, "status", "conditions")
	if err != nil {
		return err.Error()
	}
	var foreign map[string]any
	for _, c := range conditions {
		if fields, _ := c.(map[string]any); fields["type"] == "Foreign" {
			foreign = fields
		}
	}
	if diff := cmp.Diff(value, foreign["future"]); diff != "" {
		return "field future of a foreign condition (-want +got):\n" + diff
	}
	return ""
}
