package lock

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// AnnotationProcess names the process of the holder, because a pod can have several, one after the other. Other
	// implementations do not set it.
	AnnotationProcess = "host.pergola.dev/holder"
	// AnnotationSettled is the resourceVersion of the locked item for which the last holder had nothing more to do. After
	// a space it may have a note of the holder.
	AnnotationSettled = "host.pergola.dev/settled"

	// kindDeployItem is the kind of the locked objects.
	kindDeployItem = "DeployItem"
)

// Key names the lock of a plugin on an item. Another item of the same name has another UID.
type Key struct {
	Plugin string
	Item   types.NamespacedName
	UID    types.UID
}

// owner is a Key without the UID: a plugin works on one item of a name at a time.
type owner struct {
	plugin string
	item   types.NamespacedName
}

func (k Key) owner() owner { return owner{plugin: k.Plugin, item: k.Item} }

// objectName is the name of the SyncObject.
func objectName(prefix string, k Key) types.NamespacedName {
	return types.NamespacedName{Namespace: k.Item.Namespace, Name: prefix + k.Plugin + "-" + string(k.UID)}
}

// keyOf returns the Key of a SyncObject; false if it locks no deploy item with this prefix.
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

// processOf is the process of the holder; empty for a free lock and for another implementation.
func processOf(object *v1alpha1.SyncObject) string { return object.Annotations[AnnotationProcess] }
