package contract_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestTypeOf(t *testing.T) {
	cases := map[string]struct {
		reason      string
		annotations map[string]string
		want        v1alpha1.DeployItemType
		ok          bool
	}{
		"annotated": {
			reason:      "the metadata repeats the type",
			annotations: map[string]string{v1alpha1.DeployerTypeAnnotation: "t"}, want: "t", ok: true,
		},
		"empty": {reason: "no type is empty", annotations: map[string]string{v1alpha1.DeployerTypeAnnotation: ""}},
		"none":  {reason: "the metadata does not repeat it"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, ok := contract.TypeOf(&metav1.ObjectMeta{Annotations: tc.annotations}); got != tc.want || ok != tc.ok {
				t.Errorf("%s: found %q, %t", tc.reason, got, ok)
			}
		})
	}
}

func TestTargetOf(t *testing.T) {
	cases := map[string]struct {
		reason     string
		annotation string
		want       string
	}{
		"annotated": {reason: "the metadata repeats the name", annotation: "prod", want: `"prod" true true`},
		"none": {
			reason: "the metadata says that there is none", annotation: v1alpha1.NoTargetName, want: `"" false true`,
		},
		"unknown": {reason: "the metadata does not say", want: `"" false false`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			meta := &metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.DeployerTargetNameAnnotation: tc.annotation}}
			found, hasTarget, known := contract.TargetOf(meta)
			if got := fmt.Sprintf("%q %t %t", found, hasTarget, known); got != tc.want {
				t.Errorf("%s: expected %s, but found %s", tc.reason, tc.want, got)
			}
		})
	}
}

func TestDeployerAnnotations(t *testing.T) {
	cases := map[string]struct {
		reason string
		target *v1alpha1.ObjectReference
		want   string
	}{
		"target":    {reason: "the Target's name", target: &v1alpha1.ObjectReference{Name: "a"}, want: "a"},
		"no target": {reason: "what Landscaper writes for none", want: v1alpha1.NoTargetName},
		"empty target": {
			reason: "a reference without a name is none", target: &v1alpha1.ObjectReference{Namespace: "n"},
			want: v1alpha1.NoTargetName,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			item := &v1alpha1.DeployItem{Spec: v1alpha1.DeployItemSpec{Type: "t", Target: tc.target}}
			got := contract.DeployerAnnotations(item)
			want := map[string]string{
				v1alpha1.DeployerTypeAnnotation: "t", v1alpha1.DeployerTargetNameAnnotation: tc.want,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
