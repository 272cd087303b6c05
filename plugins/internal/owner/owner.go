// Package owner tells to which deploy item an object on a target belongs. The objects of a deploy item carry labels
// with its name: one of Pergola's, which has the namespace too, and one of Landscaper's, which has not. What Landscaper
// has labelled belongs to the deploy item of that name until it has Pergola's label.
package owner

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Label is on each object that a deploy item has applied. Its value is "<namespace>.<name>" of the item, or the
// beginning of that with a hash if it is too long for a label.
const Label = "pergola.dev/deployitem"

// Owner is a deploy item as the owner of objects.
type Owner struct {
	// Namespace and Name of the deploy item.
	Namespace, Name string
	// UpstreamLabel is the key of the label that Landscaper's deployer of the item's type puts on objects, with the
	// item's name. It is put on objects beside Label, for people and programs that look for it. Empty if there is none.
	UpstreamLabel string
}

// Labels returns the labels of all objects of the deploy item.
func (o Owner) Labels() map[string]string {
	labels := map[string]string{Label: LabelValue(o.Namespace + "." + o.Name)}
	if o.UpstreamLabel != "" {
		labels[o.UpstreamLabel] = LabelValue(o.Name)
	}
	return labels
}

// Relation is to whom an object belongs, as an owner sees it.
type Relation int

// The relations.
const (
	// Nobodys: no deploy item has labelled the object.
	Nobodys Relation = iota
	// Ours: the owner has labelled it, or Landscaper for a deploy item of its name.
	Ours
	// Others: another deploy item has labelled it.
	Others
)

// Of tells to whom an object belongs.
func (o Owner) Of(object *unstructured.Unstructured) Relation {
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

func relation(ours bool) Relation {
	if ours {
		return Ours
	}
	return Others
}

// Of returns what an object says of the deploy item that it belongs to, for messages; upstreamLabel is as in Owner. It
// is empty for an object that no deploy item has labelled.
func Of(object *unstructured.Unstructured, upstreamLabel string) string {
	labels := object.GetLabels()
	if value, ok := labels[Label]; ok {
		return value
	}
	return labels[upstreamLabel]
}

// LabelValue returns the text, or its beginning with a hash if it is too long for a label.
func LabelValue(text string) string {
	if len(text) <= validation.LabelValueMaxLength {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	suffix := "-" + hex.EncodeToString(sum[:6])
	return text[:validation.LabelValueMaxLength-len(suffix)] + suffix
}
