package contract_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

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
