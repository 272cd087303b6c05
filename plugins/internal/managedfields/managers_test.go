package managedfields

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

func TestFormerManagers(t *testing.T) {
	t.Parallel()
	const update, applied = metav1.ManagedFieldsOperationUpdate, metav1.ManagedFieldsOperationApply
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    sets.Set[string]
	}{
		"not tracked": {nil, sets.New[string]()},
		"ours":        {[]metav1.ManagedFieldsEntry{{Manager: owner.FieldManager, Operation: update}}, sets.New(owner.FieldManager)},
		"client-side": {
			[]metav1.ManagedFieldsEntry{
				{Manager: "kubectl-client-side-apply", Operation: update}, {Manager: "kubectl-edit", Operation: update},
				{Manager: "a-controller", Operation: update}, {Manager: "helm", Operation: update, Subresource: "status"},
				{Manager: "kubectl", Operation: applied},
			}, sets.New("kubectl-client-side-apply"),
		},
		"applied before": {
			[]metav1.ManagedFieldsEntry{
				{Manager: owner.FieldManager, Operation: applied}, {Manager: "kubectl-client-side-apply", Operation: update},
				{Manager: unknownManager, Operation: update},
			}, sets.New(unknownManager),
		},
	} {
		live := &unstructured.Unstructured{Object: map[string]any{}}
		live.SetManagedFields(c.entries)
		if got := FormerManagers(live); !got.Equal(c.want) {
			t.Errorf("%s: expected %v, but found %v", name, c.want, got)
		}
	}
}
