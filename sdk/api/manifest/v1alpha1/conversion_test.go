package v1alpha1_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha1"
)

// TestConversionDropsNothing fills every field of the older form and expects every field of the same name to arrive.
func TestConversionDropsNothing(t *testing.T) {
	t.Parallel()
	in := &v1alpha1.ProviderConfiguration{
		UpdateStrategy:    managedresource.UpdateStrategyPatch,
		IgnoreDifferences: []managedresource.IgnoreDifferences{{Kind: "A", JSONPointers: []string{"/a"}}},
		ReadinessChecks:   managedresource.ReadinessCheckConfiguration{DisableDefault: true},
		Manifests:         []*runtime.RawExtension{{Raw: []byte(`{"kind":"A"}`)}, nil},
		Exports:           &managedresource.Exports{Exports: []managedresource.Export{{Key: "a"}}},
		DeletionGroups: []managedresource.DeletionGroup{{
			PredefinedResourceGroup: &managedresource.PredefinedResourceGroup{Type: managedresource.PredefinedCRDs},
		}},
		DeletionGroupsDuringUpdate: []managedresource.DeletionGroup{{
			PredefinedResourceGroup: &managedresource.PredefinedResourceGroup{Type: managedresource.PredefinedEmpty},
		}},
	}
	fields := func(config any) (found map[string]any) {
		document, err := json.Marshal(config)
		if err := errors.Join(err, json.Unmarshal(document, &found)); err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{"apiVersion", "kind", "manifests"} {
			delete(found, other)
		}
		return found
	}
	all := reflect.TypeFor[v1alpha1.ProviderConfiguration]().NumField() - 2 // without TypeMeta and Manifests
	if len(fields(in)) != all {
		t.Errorf("this test must fill %d fields, but fills %v", all, fields(in))
	}
	if diff := cmp.Diff(fields(in), fields(in.ToV1alpha2())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want := []managedresource.Manifest{
		{Policy: managedresource.PolicyManage, Manifest: in.Manifests[0]},
		{Policy: managedresource.PolicyManage},
	}
	if diff := cmp.Diff(want, in.ToV1alpha2().Manifests); diff != "" {
		t.Errorf("field Manifests: -want +got:\n%s", diff)
	}
}
