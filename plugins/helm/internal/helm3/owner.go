package helm3

import (
	"slices"

	"helm.sh/helm/v3/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// isOurs reports whether an object on the target is one of the release: it names the release, or it names none and the
// deploy item has made it.
func (k *objectClient) isOurs(live metav1.Object) bool {
	of := helm.ReleaseOf(live)
	return of == k.o.req.Release || of == (helm.Release{}) && k.isKnown(live)
}

// isKnown reports whether the deploy item has made an object, in this operation or an earlier one.
func (k *objectClient) isKnown(live metav1.Object) bool {
	return slices.Contains(k.o.req.Known, live.GetUID()) || k.created[live.GetUID()]
}

// noteCreated keeps which of the objects were created: only those are undone.
func (k *objectClient) noteCreated(resources kube.ResourceList) {
	for _, info := range resources {
		if o, ok := info.Object.(metav1.Object); ok && o.GetUID() != "" { // a manifest has none
			k.created[o.GetUID()] = true
		}
	}
}

// fateInUpdate says what an update makes of an object that exists; empty for an object of the release. adopted objects
// are those that no revision of the release has, and that Helm has found to be free to take.
func (k *objectClient) fateInUpdate(live metav1.Object, adopted bool) helm.Fate {
	_, what := k.o.history.current()
	switch {
	case adopted && !k.isKnown(live):
		return helm.TakenOver
	case k.isOurs(live):
		return ""
	case k.o.req.Options.TakeOwnership && what != "rollback":
		return helm.TakenOver
	default:
		return helm.Left
	}
}

// fateInDeletion says why an object is not deleted; empty for one that is.
func (k *objectClient) fateInDeletion(live metav1.Object) helm.Fate {
	switch {
	case !k.isOurs(live):
		return helm.Left
	case (k.undoes() || k.o.req.OnlyKnown) && !k.isKnown(live):
		return helm.NotUndone
	default:
		return ""
	}
}

// undoes reports whether Helm undoes an operation that has failed.
func (k *objectClient) undoes() bool {
	_, what := k.o.history.current()
	return what == "rollback" || what == "delete" && k.o.req.Action != helm.Uninstall
}

// tell tells the observer what becomes of objects that the release has not made. Those that are left count for nothing
// from now on.
func (k *objectClient) tell(found []helm.Found) error {
	for _, f := range found {
		if f.Fate != helm.TakenOver {
			k.left[f.Key] = true
		}
	}
	if len(found) == 0 {
		return nil
	}
	err := errSealed
	k.o.listener.call(func(observer helm.Observer) { err = observer.Found(k.o.ctx, found) })
	if err != nil {
		return failure(helm.Refused, "%v", err)
	}
	return nil
}

// own leaves out what is done and gone, and what is not the release's.
func (k *objectClient) own(resources kube.ResourceList) kube.ResourceList {
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

// metadata returns that of an object that was read.
func metadata(o runtime.Object) metav1.Object {
	m, ok := o.(metav1.Object)
	if !ok {
		return &metav1.ObjectMeta{} // the API server has answered with something else
	}
	return m
}
