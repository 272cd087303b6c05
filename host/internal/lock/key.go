package lock

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// AnnotationProcess names the process that holds a lock, because a pod can have several, one after the other.
	// Other implementations set none.
	AnnotationProcess = "host.pergola.dev/holder"
	// AnnotationSettled is the resourceVersion of the locked item at which its last holder had nothing more to do with
	// it. After a space it may have a note of that holder.
	AnnotationSettled = "host.pergola.dev/settled"

	// kindDeployItem is the kind of the objects that are locked here.
	kindDeployItem = "DeployItem"
)

// Key names a lock: that of a plugin on an item. The item is the one with the UID, and no other of its name.
type Key struct {
	Plugin string
	Item   types.NamespacedName
	UID    types.UID
}

// owner is who can have a lock in this process: a plugin works on one item of a name at a time.
type owner struct {
	plugin string
	item   types.NamespacedName
}

func (k Key) owner() owner { return owner{plugin: k.Plugin, item: k.Item} }

// objectName is the name of the SyncObject.
func objectName(prefix string, k Key) types.NamespacedName {
	return types.NamespacedName{Namespace: k.Item.Namespace, Name: prefix + k.Plugin + "-" + string(k.UID)}
}

// keyOf tells what a SyncObject locks; false if that is none of the deploy items locked with this prefix.
func keyOf(prefix string, object *v1alpha1.SyncObject) (Key, bool) {
	plugin, ours := strings.CutPrefix(object.Spec.Prefix, prefix)
	uid, named := strings.CutPrefix(object.Name, object.Spec.Prefix+"-")
	if !ours || !named || plugin == "" || uid == "" || object.Spec.Kind != kindDeployItem {
		return Key{}, false
	}
	return Key{
		Plugin: plugin,
		Item:   types.NamespacedName{Namespace: object.Namespace, Name: object.Spec.Name},
		UID:    types.UID(uid),
	}, true
}

// processOf is the process that holds a lock; empty if there is none, or if it is of another implementation.
func processOf(object *v1alpha1.SyncObject) string { return object.Annotations[AnnotationProcess] }
