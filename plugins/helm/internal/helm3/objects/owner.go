package objects

import (
	"slices"

	"helm.sh/helm/v3/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// isOurs reports whether a live object belongs to the release: it names the release, or it names none and was created
// by the item.
func (k *Client) isOurs(live metav1.Object) bool {
	of := helm.OwnerOf(live)
	return of == k.req.Release.Owner() || of == (helm.Owner{}) && k.isKnown(live)
}

// isKnown reports whether the item has created an object, in this operation or an earlier one.
func (k *Client) isKnown(live metav1.Object) bool {
	return slices.Contains(k.req.Known, live.GetUID()) || k.created[live.GetUID()]
}

// noteCreated records the created ones of the objects: only they are undone.
func (k *Client) noteCreated(resources kube.ResourceList) {
	for _, info := range resources {
		if o, ok := info.Object.(metav1.Object); ok && o.GetUID() != "" { // set by the API server; a manifest has none
			k.created[o.GetUID()] = true
		}
	}
}

// fateInUpdate returns the fate of an existing object in an update; empty for an object of the release. adopted
// objects are in no revision of the release, and free to take for Helm.
func (k *Client) fateInUpdate(live metav1.Object, adopted bool) helm.Fate {
	_, what := k.history.Current()
	takes := k.req.Options.TakeOwnership && what != "rollback"
	switch {
	case adopted && !k.isKnown(live) && (takes || helm.OwnerOf(live).Item == ""):
		return helm.TakenOver
	case k.isOurs(live):
		return ""
	case takes:
		return helm.TakenOver
	default:
		return helm.Left
	}
}

// fateInDeletion returns the reason to keep an object; empty for a deletion.
func (k *Client) fateInDeletion(live metav1.Object) helm.Fate {
	switch {
	case !k.isOurs(live):
		return helm.Left
	case (k.undoes() || k.req.OnlyKnown) && !k.isKnown(live):
		return helm.NotUndone
	default:
		return ""
	}
}

// undoes reports whether Helm undoes a failed operation.
func (k *Client) undoes() bool {
	_, what := k.history.Current()
	return what == "rollback" || what == "delete" && k.req.Action != helm.Uninstall
}

// tell reports the fates of objects from others to the observer. Objects left alone do not count from now on.
func (k *Client) tell(found []helm.Found) error {
	for _, f := range found {
		if f.Fate != helm.TakenOver {
			k.left[f.Key] = true
		}
	}
	if len(found) == 0 {
		return nil
	}
	if err := k.observer.Found(k.ctx, found); err != nil {
		return journal.Failure(helm.Refused, "%v", err)
	}
	return nil
}

// own leaves out the completed and gone objects, and those of others.
func (k *Client) own(resources kube.ResourceList) kube.ResourceList {
	return k.withoutGone(resources).Filter(func(info *resource.Info) bool { return !k.left[objectKey(info)] })
}

func objectKey(info *resource.Info) object.Key {
	kind := info.Mapping.GroupVersionKind
	key := object.Key{Group: kind.Group, Kind: kind.Kind, Name: info.Name}
	if info.Namespaced() {
		key.Namespace = info.Namespace
	}
	return key
}

// metadata returns the metadata of an object from the API server.
func metadata(o runtime.Object) metav1.Object {
	m, ok := o.(metav1.Object)
	if !ok {
		return &metav1.ObjectMeta{} // an answer of another kind has none
	}
	return m
}
