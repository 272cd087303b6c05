package v1alpha1_test

import (
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
	source := reflect.ValueOf(in).Elem()
	result := reflect.ValueOf(in.ToV1alpha2()).Elem()
	for _, field := range reflect.VisibleFields(source.Type()) {
		if len(field.Index) > 1 || field.Anonymous {
			continue
		}
		if source.FieldByIndex(field.Index).IsZero() {
			t.Errorf("this test must fill the field %s", field.Name)
		}
		if field.Name == "Manifests" {
			continue
		}
		want, got := source.FieldByIndex(field.Index).Interface(), result.FieldByName(field.Name).Interface()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("field %s: -want +got:\n%s", field.Name, diff)
		}
	}
	want := []managedresource.Manifest{
		{Policy: managedresource.PolicyManage, Manifest: in.Manifests[0]},
		{Policy: managedresource.PolicyManage},
	}
	if diff := cmp.Diff(want, in.ToV1alpha2().Manifests); diff != "" {
		t.Errorf("field Manifests: -want +got:\n%s", diff)
	}
}
