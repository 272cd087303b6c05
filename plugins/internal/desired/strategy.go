package desired

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/managedfields"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Wanted returns the intended state of an existing object. For server-side apply it is the object to send: only the
// fields to be ours.
func Wanted(i *Object, live *unstructured.Unstructured) *unstructured.Unstructured {
	var out *unstructured.Unstructured
	switch i.Strategy {
	case managedresource.UpdateStrategyMerge:
		out = merged(objects.Fill, i, live)
	case managedresource.UpdateStrategyMergeOverwrite:
		out = merged(objects.Overlay, i, live)
	case managedresource.UpdateStrategyApply:
		out = objects.WithoutStatus(i.Desired)
		// The uid keeps the request from creating the object if it is gone by then.
		out.SetUID(live.GetUID())
	default:
		out = replacement(i.Desired, live)
	}
	i.leaveIgnored(out, live)
	keepAnnotations(out, live, i.AnnotateBeforeCreate)
	i.mark(out, live)
	return out
}

// leaveIgnored leaves the fields of other clients as they are. With server-side apply only this field manager's part
// of them is sent as it is, since it would be removed otherwise. A field in a value managed only as a whole is sent
// with it.
func (i *Object) leaveIgnored(out, live *unstructured.Unstructured) {
	var own map[string]any
	for _, p := range i.Ignored {
		at := ignore.In(i.Desired.Object, live.Object, p)
		switch {
		case i.Strategy != managedresource.UpdateStrategyApply || len(at) > 0 && managedfields.IsWhole(live, at[:len(at)-1]):
			ignore.Leave(out.Object, live.Object, p)
		case !managedfields.Owns(live, at):
			ignore.Remove(out.Object, p)
		default:
			if own == nil {
				own = managedfields.OwnPart(live)
			}
			ignore.Leave(out.Object, own, p)
		}
	}
	if len(i.Ignored) > 0 {
		setLabels(out, i.Labels())
	}
}

// mark marks an object to be written with the installation of the owner. An object written before there were marks is
// not written for the sake of the mark alone.
func (i *Object) mark(out, live *unstructured.Unstructured) {
	if i.Owner.Installation == "" {
		return
	}
	if owner.Mark(live) != "" || i.Strategy == managedresource.UpdateStrategyApply || !objects.Same(out, live) {
		setAnnotation(out, owner.InstallationAnnotation, i.Owner.Installation)
	}
}

func setAnnotation(o *unstructured.Unstructured, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

// merged returns the live object combined with the manifest. The labels of the owner are written in any case: they
// name the manager of the object, and an object taken over would otherwise never be ours.
func merged(
	combine func(base, more map[string]any) map[string]any, i *Object, live *unstructured.Unstructured,
) *unstructured.Unstructured {
	manifest := objects.WithoutStatus(i.Desired)
	out := &unstructured.Unstructured{Object: combine(live.Object, manifest.Object)}
	keepFinalizers(out, live)
	keepOwners(out, live)
	setLabels(out, i.Labels())
	return out
}

// Initial returns the object for its creation.
func Initial(i *Object) *unstructured.Unstructured {
	out := i.Desired
	if i.Strategy == managedresource.UpdateStrategyApply {
		out = objects.WithoutStatus(out)
	}
	out = out.DeepCopy()
	for key, value := range i.AnnotateBeforeCreate {
		setAnnotation(out, key, value)
	}
	if i.Owner.Installation != "" {
		setAnnotation(out, owner.InstallationAnnotation, i.Owner.Installation)
	}
	return out
}

// keepAnnotations leaves the annotations for the creation of the object as they are.
func keepAnnotations(out, live *unstructured.Unstructured, onlyAtCreation map[string]string) {
	for key := range onlyAtCreation {
		if value, ok := live.GetAnnotations()[key]; ok {
			setAnnotation(out, key, value)
		}
	}
}
