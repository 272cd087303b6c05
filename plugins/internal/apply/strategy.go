package apply

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// wanted returns the intended state of an existing object. For server-side apply it is the object to send: only the
// fields to be ours.
func wanted(i *Item, live *unstructured.Unstructured) *unstructured.Unstructured {
	var out *unstructured.Unstructured
	switch i.Strategy {
	case managedresource.UpdateStrategyMerge:
		out = merged(fill, i, live)
	case managedresource.UpdateStrategyMergeOverwrite:
		out = merged(overlay, i, live)
	case managedresource.UpdateStrategyApply:
		out = withoutStatus(i.Desired)
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
func (i *Item) leaveIgnored(out, live *unstructured.Unstructured) {
	var own map[string]any
	for _, p := range i.Ignored {
		at := ignore.In(i.Desired.Object, live.Object, p)
		switch {
		case i.Strategy != managedresource.UpdateStrategyApply || len(at) > 0 && isWhole(live, at[:len(at)-1]):
			ignore.Leave(out.Object, live.Object, p)
		case !owns(live, at):
			ignore.Remove(out.Object, p)
		default:
			if own == nil {
				own = ownPart(live)
			}
			ignore.Leave(out.Object, own, p)
		}
	}
	if len(i.Ignored) > 0 {
		setLabels(out, i.labels())
	}
}

// mark marks an object to be written with the installation of the owner. An object written before there were marks is
// not written for the sake of the mark alone.
func (i *Item) mark(out, live *unstructured.Unstructured) {
	if i.owner.Installation == "" {
		return
	}
	if owner.Mark(live) != "" || i.Strategy == managedresource.UpdateStrategyApply || !same(out, live) {
		setAnnotation(out, owner.InstallationAnnotation, i.owner.Installation)
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
	combine func(base, more map[string]any) map[string]any, i *Item, live *unstructured.Unstructured,
) *unstructured.Unstructured {
	manifest := withoutStatus(i.Desired)
	out := &unstructured.Unstructured{Object: combine(live.Object, manifest.Object)}
	keepFinalizers(out, live)
	keepOwners(out, live)
	setLabels(out, i.labels())
	return out
}

// initial returns the object for its creation.
func initial(i *Item) *unstructured.Unstructured {
	out := i.Desired
	if i.Strategy == managedresource.UpdateStrategyApply {
		out = withoutStatus(out)
	}
	out = out.DeepCopy()
	for key, value := range i.AnnotateBeforeCreate {
		setAnnotation(out, key, value)
	}
	if i.owner.Installation != "" {
		setAnnotation(out, owner.InstallationAnnotation, i.owner.Installation)
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

func withoutStatus(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "status")
	return out
}

// same reports whether two states of an object have the same content.
func same(a, b *unstructured.Unstructured) bool {
	return reflect.DeepEqual(content(a), content(b))
}

// ofServer are the fields of the metadata set by the API server itself. They change with every write, or differ
// between an object and a new one.
var ofServer = []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"}

// content returns an object without the metadata set by the API server. It shares the rest with the object.
func content(o *unstructured.Unstructured) map[string]any {
	out := make(map[string]any, len(o.Object))
	for key, value := range o.Object {
		out[key] = value
	}
	metadata, ok := out["metadata"].(map[string]any)
	if !ok {
		return out
	}
	rest := make(map[string]any, len(metadata))
	for key, value := range metadata {
		rest[key] = value
	}
	for _, key := range ofServer {
		delete(rest, key)
	}
	out["metadata"] = rest
	return out
}
