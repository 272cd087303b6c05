package e2e

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// oddValues are written into every field. The API server may refuse them or take them, but what it takes must be
// readable.
var oddValues = []any{
	"", "none", "text", "10m", "-1s", "99999999999h", "1.5h", "µ", "1y",
	"2021-04-15T12:10:51Z", "2021-04-15T12:10:51.123456789+02:00", "2021-04-15 12:10:51Z", "2021-04-15t12:10:51z",
	"2021-02-30T12:10:51Z", "2021-04-15T24:00:00Z", "2021-04-15T12:10:60Z", "0001-01-01T00:00:00Z",
	"12021-04-15T12:10:51Z", "2021-04-15T12:10:51+99:99",
	int64(0), int64(-7), int64(9007199254740993), 1.5, true,
	map[string]any{}, map[string]any{"key": "value"}, map[string]any{"apiVersion": "v1", "kind": "Any"},
	[]any{}, []any{"text"}, []any{map[string]any{"name": "text"}}, []any{int64(1)},
}

// fieldsOf are the fields of each kind whose Go type is more particular than a text.
var fieldsOf = map[string][][]string{
	"DeployItem": {
		{"spec", "timeout"}, {"spec", "config"}, {"spec", "target"}, {"spec", "onDelete"}, {"spec", "updateOnChangeOnly"},
		{"status", "conditions"}, {"status", "lastError"}, {"status", "lastErrors"}, {"status", "lastReconcileTime"},
		{"status", "jobIDGenerationTime"}, {"status", "transitionTimes"}, {"status", "transitionTimes", "initTime"},
		{"status", "providerStatus"}, {"status", "exportRef"}, {"status", "deployer"}, {"status", "observedGeneration"},
	},
	"Target": {{"spec", "config"}, {"spec", "secretRef"}},
	"Context": {
		{"repositoryContext"}, {"ocmConfig"}, {"registryPullSecrets"}, {"configurations"}, {"verificationSignatures"},
	},
	"SyncObject": {
		{"spec", "lastUpdateTime"}, {"spec", "podName"},
	},
	"DeployerRegistration": {
		{"spec", "types"}, {"spec", "installationTemplate"}, {"spec", "hook"}, {"spec", "hook", "version"},
		{"spec", "hook", "address"}, {"spec", "hook", "address", "uri"}, {"spec", "hook", "address", "ref"},
		{"spec", "hook", "timeout"}, {"spec", "hook", "capabilities"}, {"spec", "hook", "formFactor"},
		{"spec", "hook", "conditionsFromHook"}, {"spec", "hook", "tls"}, {"spec", "hook", "auth"},
		{"status", "observedGeneration"}, {"status", "conditions"}, {"status", "hook"}, {"status", "deployers"},
	},
}

// oddLabel marks the objects with odd values.
const oddLabel = "e2e.pergola.dev/odd"

// required are the fields without which the API server takes no object of the kind.
var required = map[string]map[string]any{
	"DeployItem": {"spec": map[string]any{"type": "example.org/odd"}},
	"Target":     {"spec": map[string]any{"type": "example.org/odd"}},
	"Context":    {},
	"SyncObject": {"spec": map[string]any{
		"podName": "", "kind": "DeployItem", "name": "odd", "prefix": "odd", "lastUpdateTime": "2021-04-15T12:10:51Z",
	}},
	"DeployerRegistration": {"spec": map[string]any{
		"types": []any{"example.org/odd"},
		"hook":  map[string]any{"version": "v1", "address": map[string]any{"uri": "https://localhost:1"}},
	}},
}

func lists() map[string]client.ObjectList {
	return map[string]client.ObjectList{
		"DeployItem": &v1alpha1.DeployItemList{}, "Target": &v1alpha1.TargetList{},
		"Context": &v1alpha1.ContextList{}, "SyncObject": &v1alpha1.SyncObjectList{},
		"DeployerRegistration": &v1alpha1.DeployerRegistrationList{},
	}
}

// TestNoObjectBreaksItsList: each object that the API server takes can be read in a list.
// Rule (SECURITY.md#authors-of-items): No accepted object makes its list unreadable.
func TestNoObjectBreaksItsList(t *testing.T) {
	for kind, list := range lists() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			if kind == "DeployerRegistration" {
				namespace = "" // they are in none
			}
			taken := 0
			for _, path := range fieldsOf[kind] {
				taken += listOdd(t, namespace, kind, path, list)
			}
			if taken == 0 {
				t.Error("the API server has taken no object at all, so the test shows nothing")
			}
		})
	}
}

// listOdd creates objects with odd values in a field, lists them and deletes them again, and returns how many the
// API server has taken.
func listOdd(t *testing.T, namespace, kind string, path []string, list client.ObjectList) (taken int) {
	t.Helper()
	for _, value := range oddValues {
		if createOdd(t, namespace, kind, path, value) {
			taken++
		}
	}
	unreadable := admin.List(t.Context(), list, client.InNamespace(namespace))
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	odd := client.MatchingLabels{oddLabel: "true"}
	if err := admin.DeleteAllOf(t.Context(), object, client.InNamespace(namespace), odd); err != nil {
		t.Fatal(err)
	}
	if unreadable != nil {
		t.Fatalf("%s with an odd value is taken and makes the list unreadable: %v", strings.Join(path, "."), unreadable)
	}
	return taken
}

// createOdd creates an object with a value in a field, and tells whether the API server took it.
func createOdd(t *testing.T, namespace, kind string, path []string, value any) bool {
	t.Helper()
	object := &unstructured.Unstructured{Object: (&unstructured.Unstructured{Object: required[kind]}).DeepCopy().Object}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	object.SetNamespace(namespace)
	object.SetGenerateName("odd-")
	object.SetLabels(map[string]string{oddLabel: "true"})
	if path[0] != "status" {
		if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			t.Fatal(err)
		}
		return isTaken(t, admin.Create(t.Context(), object))
	}
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	object.Object["status"] = map[string]any{"observedGeneration": int64(0)}
	if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
		t.Fatal(err)
	}
	return isTaken(t, admin.Status().Update(t.Context(), object))
}

// isTaken tells whether the API server took an object, which it may refuse as invalid.
func isTaken(t *testing.T, err error) bool {
	t.Helper()
	if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		t.Fatal(err)
	}
	return err == nil
}

// TestTypeIsImmutable: a deploy item cannot be handed to another deployer.
func TestTypeIsImmutable(t *testing.T) {
	item := newItem(newNamespace(t), "item", mockType, mockSucceeds)
	create(t, item)
	item.Spec.Type = manifestType
	if err := admin.Update(t.Context(), item); !apierrors.IsInvalid(err) {
		t.Errorf("expected the type to be immutable, but found error %v", err)
	}
}
