// Package owner determines the owners of objects on a target. The objects of a deploy item carry labels with its
// name: one of Pergola's, with the namespace, and one of Landscaper's, without it. An object with only Landscaper's
// label belongs to the deploy item of that name until it has Pergola's. The name is unique in one control plane only,
// so an annotation names the installation of the deploy item; an object without it is from before the annotation, or
// from Landscaper, and its labels alone count.
package owner

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/mark"
)

const (
	// Label is on each object applied by a deploy item.
	Label = mark.DeployItem
	// InstallationAnnotation is beside it, with the installation of the deploy item, see sdk.Request.
	InstallationAnnotation = mark.Installation
	// TakeOverAnnotation on a deploy item names another installation whose objects the deploy item takes over.
	TakeOverAnnotation = "pergola.dev/take-over-from"
	// ReleaseName is an annotation of the objects of a Helm release. The label counts more: a release removes it in a
	// takeover.
	ReleaseName = "meta.helm.sh/release-name"
	// ReleaseNamespace is beside it.
	ReleaseNamespace = "meta.helm.sh/release-namespace"
	// FieldManager is the field manager of all writes to objects of deploy items.
	FieldManager = "pergola"
)

// Relation is the relation of an object to an owner.
type Relation int

// The relations.
const (
	// Nobodys: the object bears no mark.
	Nobodys Relation = iota
	// Ours: it bears the owner's own.
	Ours
	// Others: it bears the mark of another owner of this installation.
	Others
	// Foreign: it bears the mark of another installation, whatever the name of the owner there.
	Foreign
)

// Owner is a deploy item as the owner of objects.
type Owner struct {
	// Namespace and Name of the deploy item.
	Namespace, Name string
	// UpstreamLabel is the key of the label Landscaper's deployer of the item's type puts on objects, with the item's
	// name. Objects get it beside Label, for users and programs in search of it. Empty if there is none.
	UpstreamLabel string
	// Installation of the deploy item; empty if unknown. Then no object is Foreign.
	Installation string
	// ByRelease: the objects name a Helm release in place of the deploy item. Package releasejob knows which are its own.
	ByRelease bool
	// Accepted are other installations whose objects the deploy item may take: its former ones, before its control plane
	// was restored as another one, and the one of TakeOverAnnotation.
	Accepted []string
}

// New returns the deploy item of a request as the owner of objects. before is the installation in its last saved
// provider status; empty if unknown. upstreamLabel is as in Owner.
func New(req *sdk.Request, upstreamLabel, before string) Owner {
	item := req.DeployItem
	o := Owner{
		Namespace: item.Namespace, Name: item.Name, UpstreamLabel: upstreamLabel, Installation: req.Installation,
	}
	for _, accepted := range []string{before, item.Annotations[TakeOverAnnotation]} {
		if accepted != "" && accepted != req.Installation {
			o.Accepted = append(o.Accepted, accepted)
		}
	}
	return o
}

// IsZero reports whether there is no owner.
func (o Owner) IsZero() bool { return o.Name == "" }

// Labels returns the labels of all objects of the deploy item.
func (o Owner) Labels() map[string]string {
	labels := map[string]string{Label: mark.ValueOf(o.Namespace, o.Name)}
	if o.UpstreamLabel != "" {
		labels[o.UpstreamLabel] = mark.LabelValue(o.Name)
	}
	return labels
}

// Of returns the relation of an object to the deploy item.
func (o Owner) Of(object metav1.Object) Relation {
	if o.isForeign(object) {
		return Foreign
	}
	labels := object.GetLabels()
	own := o.Labels()
	if value, ok := labels[Label]; ok {
		return relation(value == own[Label])
	}
	if value, ok := labels[o.UpstreamLabel]; ok {
		return relation(value == own[o.UpstreamLabel])
	}
	if o.IsOfRelease(object) {
		return Others
	}
	return Nobodys
}

// IsOfRelease reports whether an object names a Helm release, and no deploy item: the release has created it, or has
// taken it over.
func (o Owner) IsOfRelease(object metav1.Object) bool {
	labels := object.GetLabels()
	_, labelled := labels[Label]
	_, landscapers := labels[o.UpstreamLabel]
	return !o.ByRelease && !labelled && !landscapers && object.GetAnnotations()[ReleaseName] != ""
}

func (o Owner) isForeign(object metav1.Object) bool {
	return o.IsMarkedElsewhere(object) && !slices.Contains(o.Accepted, Mark(object))
}

// IsMarkedElsewhere reports whether an object bears the mark of another installation, accepted or not.
func (o Owner) IsMarkedElsewhere(object metav1.Object) bool {
	mark := Mark(object)
	return mark != "" && o.Installation != "" && mark != o.Installation
}

// Mark returns the installation of an object's mark; empty for none.
func Mark(object metav1.Object) string { return object.GetAnnotations()[InstallationAnnotation] }

func relation(ours bool) Relation {
	if ours {
		return Ours
	}
	return Others
}

// IsTaken reports whether the mark of an object proves another owner by now, even against the uid in the records of
// this one. Landscaper's label does not count: it has no namespace.
func (o Owner) IsTaken(object metav1.Object) bool {
	_, labelled := object.GetLabels()[Label]
	return o.Of(object) == Foreign || labelled && o.Of(object) == Others || o.IsOfRelease(object)
}

// Made reports whether the deploy item itself has written an object of its own: it recreates a missing or a replaced
// object, and may be interrupted before its uid is saved. The mark alone is no proof, since users copy objects with
// their marks; the writer of an object shows in its field managers.
func (o Owner) Made(object metav1.Object) bool {
	return object.GetLabels()[Label] == o.Labels()[Label] && o.Of(object) == Ours && isWritten(object)
}

func isWritten(object metav1.Object) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == FieldManager && e.Subresource == ""
	})
}

// Describe names the owner by the mark of an object, for messages; empty without a mark.
func (o Owner) Describe(object metav1.Object) string {
	labels := object.GetLabels()
	item, ok := labels[Label]
	if !ok {
		item = labels[o.UpstreamLabel]
	}
	switch {
	case o.IsOfRelease(object):
		annotations := object.GetAnnotations()
		return fmt.Sprintf("release %s/%s", annotations[ReleaseNamespace], annotations[ReleaseName])
	case o.IsMarkedElsewhere(object):
		return fmt.Sprintf("the deploy item %q of the installation %s", item, Mark(object))
	case item == "" && !ok:
		return ""
	default:
		return fmt.Sprintf("the deploy item %q", item)
	}
}

// Selector selects objects of the deploy item in lists: its objects have these labels, unless they were removed.
func (o Owner) Selector() labels.Set { return labels.Set{Label: o.Labels()[Label]} }
