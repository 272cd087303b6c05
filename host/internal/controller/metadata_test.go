package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestOnlyMetadataChanged(t *testing.T) {
	moment := metav1.NewTime(noon)
	later := metav1.NewTime(noon.Add(time.Second))
	wrote := func(manager string, at *metav1.Time, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: "status", Time: at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	label := func(m *metav1.PartialObjectMetadata) { m.Labels = map[string]string{"a": "c"} }
	cases := map[string]struct {
		reason string
		change []func(*metav1.PartialObjectMetadata)
		want   bool
	}{
		"nothing":    {reason: "a write that shows nowhere is one to the status"},
		"label":      {reason: "asks for nothing", change: []func(*metav1.PartialObjectMetadata){label}, want: true},
		"annotation": {reason: "asks for nothing", change: []func(*metav1.PartialObjectMetadata){func(m *metav1.PartialObjectMetadata) { m.Annotations["x"] = "y" }}, want: true},
		"finalizer":  {reason: "asks for nothing", change: []func(*metav1.PartialObjectMetadata){func(m *metav1.PartialObjectMetadata) { m.Finalizers = nil }}, want: true},
		"owner": {reason: "asks for nothing", want: true, change: []func(*metav1.PartialObjectMetadata){func(m *metav1.PartialObjectMetadata) {
			m.OwnerReferences = []metav1.OwnerReference{{Name: "o"}}
		}}},
		"operation": {reason: "asks for something", change: []func(*metav1.PartialObjectMetadata){func(m *metav1.PartialObjectMetadata) {
			m.Annotations[v1alpha1.OperationAnnotation] = v1alpha1.OperationReconcile
		}}},
		"spec":     {reason: "the generation tells", change: []func(*metav1.PartialObjectMetadata){label, func(m *metav1.PartialObjectMetadata) { m.Generation++ }}},
		"deletion": {reason: "asks for something", change: []func(*metav1.PartialObjectMetadata){label, func(m *metav1.PartialObjectMetadata) { m.DeletionTimestamp = &moment }}},
		"label and status, other fields": {reason: "several writes in one event", change: []func(*metav1.PartialObjectMetadata){label, func(m *metav1.PartialObjectMetadata) {
			m.ManagedFields[0] = wrote("landscaper", &moment, `{"f:status":{"f:phase":{}}}`)
		}}},
		"label and status, other time": {reason: "several writes in one event", change: []func(*metav1.PartialObjectMetadata){label, func(m *metav1.PartialObjectMetadata) {
			m.ManagedFields[0].Time = &later
		}}},
		"label and status, other writer": {reason: "several writes in one event", change: []func(*metav1.PartialObjectMetadata){label, func(m *metav1.PartialObjectMetadata) {
			m.ManagedFields = append(m.ManagedFields, wrote("somebody", &moment, `{}`))
		}}},
		"label and metadata's fields": {reason: "who wrote the metadata says nothing about the status", want: true, change: []func(*metav1.PartialObjectMetadata){label, func(m *metav1.PartialObjectMetadata) {
			m.ManagedFields = append(m.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubectl", Time: &later})
		}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := itemMetadata("5")
			before.Labels, before.Annotations, before.Finalizers = map[string]string{"a": "b"}, map[string]string{}, []string{"f"}
			before.ManagedFields = []metav1.ManagedFieldsEntry{wrote("landscaper", &moment, `{"f:status":{"f:jobID":{}}}`)}
			after := before.DeepCopy()
			for _, change := range tc.change {
				change(after)
			}
			if got := onlyMetadataChanged(slimmed(t, before), slimmed(t, after)); got != tc.want {
				t.Errorf("%s: expected %t, but found %t", tc.reason, tc.want, got)
			}
		})
	}
}

func slimmed(t *testing.T, meta *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	t.Helper()
	slim, err := Slim(meta)
	if err != nil {
		t.Fatal(err)
	}
	return slim.(*metav1.PartialObjectMetadata)
}

func TestSlim(t *testing.T) {
	meta := itemMetadata("5")
	meta.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "the whole item", "a": "b"}
	meta.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)},
		{Manager: "one", Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{},"f:jobIDFinished":{}}}`)},
		{Manager: "two", Subresource: "status"},
	}
	slim := slimmed(t, meta)
	if diff := cmp.Diff(map[string]string{"a": "b"}, slim.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	kept := slim.ManagedFields
	if len(kept) != 2 || kept[0].Manager != "one" || kept[1].Manager != "two" || len(kept[0].FieldsV1.GetRawString()) > 20 {
		t.Errorf("expected those who wrote the status, with a digest of the fields, but found %v", kept)
	}
	other := &corev1.Secret{}
	if kept, err := Slim(other); err != nil || kept != any(other) {
		t.Errorf("another object must pass as it is, but found %v, %v", kept, err)
	}
}
