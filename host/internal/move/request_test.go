package move

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Rule (deploy-items.md#moving): `pergola items move` names the old Target, and gives the item its new one or a job.
func TestRequest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		request         Request
		target, kind    string
		from, to, asked string // to is empty for a refusal
	}{
		"to another":        {Request{To: "new"}, "old", "", "old", "new", ""},
		"from another":      {Request{From: "old"}, "new", "", "old", "new", "reconcile"},
		"with both":         {Request{From: "older", To: "new"}, "old", "", "older", "new", ""},
		"to the same":       {Request{To: "old"}, "old", "", "", "", ""},
		"without a Target":  {Request{To: "new"}, "", "", "", "", ""},
		"of a Landscaper":   {Request{To: "new"}, "old", "Execution", "", "", ""},
		"of another object": {Request{To: "new"}, "old", "Kustomization", "old", "new", ""},
	} {
		item := &v1alpha1.DeployItem{}
		item.OwnerReferences = []metav1.OwnerReference{{Kind: tc.kind}}
		if tc.target != "" {
			item.Spec.Target = &v1alpha1.ObjectReference{Name: tc.target}
		}
		tc.request.Order = string(DeployFirst)
		_, err := tc.request.Apply(item)
		if (err != nil) != (tc.to == "") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if item.Annotations[FromAnnotation] != tc.from || item.Spec.Target.Name != tc.to ||
			item.Annotations[OrderAnnotation] != "deploy-first" ||
			item.Annotations[v1alpha1.OperationAnnotation] != tc.asked {
			t.Errorf("%s: found %s and %v", name, item.Spec.Target.Name, item.Annotations)
		}
	}
}
