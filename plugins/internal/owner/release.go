package owner

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Helm's marks on the objects of a release, and its field manager.
const (
	releaseName      = "meta.helm.sh/release-name"
	releaseNamespace = "meta.helm.sh/release-namespace"
	helmManager      = "helm"
)

// Release is a Helm release as the owner of objects.
type Release struct {
	Namespace, Name string
	// Item is the deploy item of the release. An object labelled by another deploy item is not the release's, whatever
	// its annotations: they stay on an object taken over by a merge.
	Item Owner
}

var _ Claim = Release{}

// Of implements Claim.
func (r Release) Of(object metav1.Object) Relation {
	byItem := r.Item.Of(object)
	name, namespace, found := releaseOf(object)
	switch {
	case byItem == Others || byItem == Foreign || !found:
		return byItem
	default:
		return relation(name == r.Name && namespace == r.Namespace)
	}
}

func releaseOf(object metav1.Object) (name, namespace string, found bool) {
	annotations := object.GetAnnotations()
	name, named := annotations[releaseName]
	namespace, placed := annotations[releaseNamespace]
	return name, namespace, named || placed
}

// IsTaken implements Claim.
func (r Release) IsTaken(object metav1.Object) bool {
	relation := r.Of(object)
	return relation == Others || relation == Foreign
}

// Made implements Claim.
func (r Release) Made(object metav1.Object) bool {
	return r.Of(object) == Ours && (writtenBy(object, helmManager) || writtenBy(object, FieldManager))
}

// Describe implements Claim.
func (r Release) Describe(object metav1.Object) string {
	name, namespace, found := releaseOf(object)
	if byItem := r.Item.Of(object); byItem == Others || byItem == Foreign || !found {
		return r.Item.Describe(object)
	}
	return fmt.Sprintf("the release %s/%s", namespace, name)
}

// Selector implements Claim.
func (r Release) Selector() labels.Set { return labels.Set{"app.kubernetes.io/managed-by": "Helm"} }
