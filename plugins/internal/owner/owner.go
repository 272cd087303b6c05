// Package owner says to whom an object on a target belongs. The objects of a deploy item carry labels with its name:
// one of Pergola's, which has the namespace too, and one of Landscaper's, which has not. What Landscaper has labelled
// belongs to the deploy item of that name until it has Pergola's label. The name is unique in one control plane only,
// so an annotation says which installation the deploy item is of; an object without it was written before there was
// one, or by Landscaper, and its labels alone count. The objects of a Helm release carry Helm's annotations.
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
	// Label is on each object that a deploy item has applied.
	Label = mark.DeployItem
	// InstallationAnnotation is beside it, and says of which installation the deploy item is, see sdk.Request.
	InstallationAnnotation = mark.Installation
	// TakeOverAnnotation on a deploy item names another installation whose objects the deploy item takes over.
	TakeOverAnnotation = "pergola.dev/take-over-from"
	// FieldManager is the name under which the objects of deploy items are written.
	FieldManager = "pergola"
)

// Claim says whose an object is, as one owner sees it.
type Claim interface {
	// Of reports to whom an object belongs.
	Of(object metav1.Object) Relation
	// IsTaken reports whether an object bears a mark that says, against the uid that the owner has noted, that the object
	// belongs to another one by now.
	IsTaken(object metav1.Object) bool
	// Made reports whether the owner itself has written an object that is its own. The mark alone does not tell, since
	// people copy objects with their marks; who has written one shows in its field managers.
	Made(object metav1.Object) bool
	// Describe names whose mark an object bears, for messages; empty for nobody's.
	Describe(object metav1.Object) string
	// Selector selects objects of the owner in lists: those that are its own have these labels, unless somebody has
	// removed them.
	Selector() labels.Set
}

// Relation is to whom an object belongs, as an owner sees it.
type Relation int

// The relations.
const (
	// Nobodys: the object bears no mark.
	Nobodys Relation = iota
	// Ours: it bears the owner's own.
	Ours
	// Others: it bears that of another owner of this installation.
	Others
	// Foreign: it bears that of another installation, whatever the owner is called there.
	Foreign
)

// Owner is a deploy item as the owner of objects.
type Owner struct {
	// Namespace and Name of the deploy item.
	Namespace, Name string
	// UpstreamLabel is the key of the label that Landscaper's deployer of the item's type puts on objects, with the
	// item's name. It is put on objects beside Label, for people and programs that look for it. Empty if there is none.
	UpstreamLabel string
	// Installation that the deploy item is of; empty if nobody knows. Then no object is Foreign.
	Installation string
	// Accepted are other installations whose objects the deploy item may take: those that it was in itself, before its
	// control plane was restored as another one, and the one that its user names by TakeOverAnnotation.
	Accepted []string
}

var _ Claim = Owner{}

// New returns the deploy item of a request as the owner of objects. before is the installation that the deploy item was
// in when its provider status was saved; empty if that does not say. upstreamLabel is as in Owner.
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

// Of implements Claim.
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
	return Nobodys
}

func (o Owner) isForeign(object metav1.Object) bool {
	return o.IsMarkedElsewhere(object) && !slices.Contains(o.Accepted, Mark(object))
}

// IsMarkedElsewhere reports whether an object bears the mark of another installation, be it one whose objects the deploy
// item may take.
func (o Owner) IsMarkedElsewhere(object metav1.Object) bool {
	mark := Mark(object)
	return mark != "" && o.Installation != "" && mark != o.Installation
}

// Mark returns the installation that an object is marked with; empty for none.
func Mark(object metav1.Object) string { return object.GetAnnotations()[InstallationAnnotation] }

func relation(ours bool) Relation {
	if ours {
		return Ours
	}
	return Others
}

// IsTaken implements Claim. Landscaper's label does not count: it has no namespace.
func (o Owner) IsTaken(object metav1.Object) bool {
	_, labelled := object.GetLabels()[Label]
	return o.Of(object) == Foreign || labelled && o.Of(object) == Others
}

// Made implements Claim: a deploy item creates an object anew that was missing or had to be replaced, and may be cut
// off before its uid is saved.
func (o Owner) Made(object metav1.Object) bool {
	return object.GetLabels()[Label] == o.Labels()[Label] && o.Of(object) == Ours && writtenBy(object, FieldManager)
}

func writtenBy(object metav1.Object, manager string) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Subresource == ""
	})
}

// Describe implements Claim.
func (o Owner) Describe(object metav1.Object) string {
	labels := object.GetLabels()
	item, ok := labels[Label]
	if !ok {
		item = labels[o.UpstreamLabel]
	}
	switch {
	case o.IsMarkedElsewhere(object):
		return fmt.Sprintf("the deploy item %q of the installation %s", item, Mark(object))
	case item == "" && !ok:
		return ""
	default:
		return fmt.Sprintf("the deploy item %q", item)
	}
}

// Selector implements Claim.
func (o Owner) Selector() labels.Set { return labels.Set{Label: o.Labels()[Label]} }
