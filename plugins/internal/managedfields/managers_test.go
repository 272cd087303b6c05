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
	by := func(manager string, operation metav1.ManagedFieldsOperationType) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation}
	}
	const clientSide = "kubectl-client-side-apply"
	status := metav1.ManagedFieldsEntry{Manager: "helm", Operation: update, Subresource: "status"}
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    []string
	}{
		"not tracked": {},
		"ours":        {[]metav1.ManagedFieldsEntry{by(owner.FieldManager, update)}, []string{owner.FieldManager}},
		"client-side": {[]metav1.ManagedFieldsEntry{
			by(clientSide, update), by("kubectl-edit", update), by("a-controller", update), status, by("kubectl", applied),
		}, []string{clientSide}},
		"applied before": {[]metav1.ManagedFieldsEntry{
			by(owner.FieldManager, applied), by(clientSide, update), by(unknownManager, update),
		}, []string{unknownManager}},
	} {
		live := &unstructured.Unstructured{Object: map[string]any{}}
		live.SetManagedFields(c.entries)
		if got := FormerManagers(live); !got.Equal(sets.New(c.want...)) {
			t.Errorf("%s: expected %v, but found %v", name, c.want, got)
		}
	}
}
