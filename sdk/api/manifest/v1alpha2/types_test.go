package v1alpha2_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// everything has each field that Landscaper's documents may have.
const everything = `{
	"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderConfiguration",
	"updateStrategy": "mergeOverwrite",
	"readinessChecks": {"disableDefault": true, "custom": [{
		"name": "n", "disabled": true, "targetName": "t",
		"resourceSelector": [{"apiVersion": "v1", "kind": "A", "name": "a", "namespace": "b"}],
		"labelSelector": {"apiVersion": "v1", "kind": "A", "matchLabels": {"a": "b"}},
		"requirements": [{"jsonPath": ".a", "operator": "in", "values": [{"value": 1}]}]
	}]},
	"manifests": [{
		"policy": "immutable", "manifest": {"kind": "A"}, "annotateBeforeCreate": {"a": "b"},
		"annotateBeforeDelete": {"a": "b"},
		"patchAfterDeployment": {"a": "b"}, "patchBeforeDelete": {"a": "b"}
	}],
	"exports": {"defaultTimeout": "5m", "exports": [{
		"key": "k", "jsonPath": ".a", "targetName": "t",
		"fromResource": {"apiVersion": "v1", "kind": "A", "name": "a", "namespace": "b"},
		"fromObjectRef": {"apiVersion": "v1", "kind": "A", "jsonPath": ".a"}
	}]},
	"continuousReconcile": {"every": "1h", "cron": "@daily"},
	"deletionGroups": [{"predefinedResourceGroup": {"type": "crds", "forceDelete": true}}],
	"deletionGroupsDuringUpdate": [{"customResourceGroup": {
		"resources": [{"apiVersion": "v1", "kind": "A", "names": ["a"], "namespaces": ["b"]}],
		"forceDelete": true, "deleteAllResources": true, "targetName": "t"
	}}]
}`

const status = `{
	"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderStatus",
	"managedResources": [{
		"policy": "manage", "annotateBeforeDelete": {"a": "b"}, "patchBeforeDelete": {"a": "b"}, "applied": "d",
		"resource": {"apiVersion": "v1", "kind": "A", "name": "a", "namespace": "b", "uid": "u",
			"resourceVersion": "7", "fieldPath": "f"}
	}]
}`

// TestDocumentsOfLandscaper reads documents strictly and writes them again: no field may be unknown, and none may get
// lost.
func TestDocumentsOfLandscaper(t *testing.T) {
	t.Parallel()
	for document, into := range map[string]any{
		everything: &v1alpha2.ProviderConfiguration{}, status: &v1alpha2.ProviderStatus{},
	} {
		unknown, err := kjson.UnmarshalStrict([]byte(document), into)
		written, marshalErr := json.Marshal(into)
		var want, got any
		if err := errors.Join(
			errors.Join(unknown...), err, marshalErr, json.Unmarshal([]byte(document), &want), json.Unmarshal(written, &got),
		); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}
