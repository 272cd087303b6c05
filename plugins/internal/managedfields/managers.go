package managedfields

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// unknownManager is the API servers' name for all managers of an object not tracked before it was applied first.
const unknownManager = "before-first-apply"

// clientSide are the field managers of clients with whole manifests, but without server-side apply, as this deployer
// is with the other strategies: kubectl, Helm, and Landscaper's deployers. Commands for single fields, such as
// kubectl edit and kubectl scale, are not among them, and neither are controllers.
var clientSide = sets.New(
	"kubectl", "kubectl-client-side-apply", "kubectl-create", "kubectl-replace", "helm",
	"manifest-deployer-controller", "helm-deployer-controller",
)

// FormerManagers returns the managers whose updated fields of an object become ours: this deployer, the unknown
// manager and, until the object is applied for the first time, clients with whole manifests.
func FormerManagers(live *unstructured.Unstructured) sets.Set[string] {
	candidates := sets.New(owner.FieldManager, unknownManager)
	if !appliedByUs(live) {
		candidates = candidates.Union(clientSide)
	}
	former := sets.New[string]()
	for _, entry := range live.GetManagedFields() {
		if entry.Subresource == "" && entry.Operation == metav1.ManagedFieldsOperationUpdate &&
			candidates.Has(entry.Manager) {
			former.Insert(entry.Manager)
		}
	}
	return former
}

func appliedByUs(live *unstructured.Unstructured) bool {
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == owner.FieldManager && entry.Subresource == "" &&
			entry.Operation == metav1.ManagedFieldsOperationApply {
			return true
		}
	}
	return false
}

// WrittenOtherwise reports whether an object has fields that become ours before it is applied.
func WrittenOtherwise(live *unstructured.Unstructured) bool { return FormerManagers(live).Len() > 0 }
