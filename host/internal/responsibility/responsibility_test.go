package responsibility_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestTypeOf(t *testing.T) {
	cases := map[string]struct {
		reason      string
		annotations map[string]string
		want        v1alpha1.DeployItemType
		ok          bool
	}{
		"annotated": {reason: "the metadata repeats the type", annotations: map[string]string{v1alpha1.DeployerTypeAnnotation: "t"}, want: "t", ok: true},
		"empty":     {reason: "no type is empty", annotations: map[string]string{v1alpha1.DeployerTypeAnnotation: ""}},
		"none":      {reason: "the metadata does not repeat it"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			item := &v1alpha1.DeployItem{}
			item.Annotations = tc.annotations
			if got, ok := responsibility.TypeOf(item); got != tc.want || ok != tc.ok {
				t.Errorf("%s: found %q, %t", tc.reason, got, ok)
			}
		})
	}
}

func TestAnnotations(t *testing.T) {
	cases := map[string]struct {
		reason string
		target *v1alpha1.ObjectReference
		want   string
	}{
		"target":       {reason: "the Target's name", target: &v1alpha1.ObjectReference{Name: "a"}, want: "a"},
		"no target":    {reason: "what Landscaper writes for none", want: v1alpha1.NoTargetName},
		"empty target": {reason: "a reference without a name is none", target: &v1alpha1.ObjectReference{}, want: v1alpha1.NoTargetName},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			item := &v1alpha1.DeployItem{Spec: v1alpha1.DeployItemSpec{Type: "t", Target: tc.target}}
			want := map[string]string{v1alpha1.DeployerTypeAnnotation: "t", v1alpha1.DeployerTargetNameAnnotation: tc.want}
			if diff := cmp.Diff(want, responsibility.Annotations(item)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
