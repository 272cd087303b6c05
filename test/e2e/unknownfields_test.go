package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

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
	future := apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: &preserve}
	properties := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	properties["spec"].Properties["future"] = future
	properties["status"].Properties["future"] = future
	properties["status"].Properties["conditions"].Items.Schema.Properties["future"] = future
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

// TestUnknownFieldsSurviveAJob: fields that no type of ours knows, as those of a newer Landscaper would be, and
// conditions of others are after a job what they were before.
// Rule (architecture.md#what-always-holds): 10. Fields unknown to the host's types survive.
func TestUnknownFieldsSurviveAJob(t *testing.T) {
	preserveUnknownFields(t)
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	dir := t.TempDir()
	// A job that waits writes the list of conditions, of which one is somebody else's.
	known := newItem(newNamespace(t), "item", probeType, probeConfig(dir, "waitFor"))
	create(t, known)
	value := map[string]any{"nested": []any{"text", int64(7), map[string]any{"deep": true}}}
	item := &unstructured.Unstructured{}
	item.SetGroupVersionKind(v1alpha1.DeployItemGVK)
	// A new schema takes effect a moment after it was written.
	eventually(t, "the API server to keep fields of a newer schema", func(ctx context.Context) (string, error) {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(known), item); err != nil {
			return "", err
		}
		item.Object["spec"].(map[string]any)["future"] = value
		if err := admin.Update(ctx, item); err != nil {
			return "", err
		}
		condition := map[string]any{
			"type": "Foreign", "status": "True", "reason": "R", "message": "m", "future": value,
			"lastTransitionTime": "2021-04-15T12:10:51Z", "lastUpdateTime": "2021-04-15T12:10:51Z",
		}
		item.Object["status"] = map[string]any{
			"observedGeneration": int64(0), "future": value, "conditions": []any{condition},
		}
		if err := admin.Status().Update(ctx, item); err != nil {
			return "", err
		}
		return lost(item, value), nil
	})

	jobID := setJob(t, known)
	waitMessage(t, known, "the file "+dir+"/waitFor")
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
	for _, part := range []string{"spec", "status"} {
		found, _, err := unstructured.NestedFieldNoCopy(item.Object, part, "future")
		if diff := cmp.Diff(value, found); err != nil || diff != "" {
			return fmt.Sprintf("%s.future (-want +got):\n%s, error %v", part, diff, err)
		}
	}
	conditions, _, err := unstructured.NestedSlice(item.Object, "status", "conditions")
	if err != nil {
		return err.Error()
	}
	for _, c := range conditions {
		if fields, _ := c.(map[string]any); fields["type"] == "Foreign" {
			return cmp.Diff(value, fields["future"])
		}
	}
	return "the foreign condition is gone"
}
