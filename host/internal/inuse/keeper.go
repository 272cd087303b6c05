// Package inuse keeps the objects read by the deletion of a deploy item until the item is gone: its Target, its
// Context, and the Secrets and the ConfigMap of these. They have a finalizer as long as an item of their namespace
// names them, so that items, Targets and Secrets can be deleted in any order, or with their namespace.
//
// # When
//
// The finalizer is put on an object before anything is deployed with it; see Keeper.Keep. A Keeper also puts it on the
// objects of existing items, and removes it when no item names the object any more. Items of all types count, because
// the deployers of others read the same objects.
//
// An object under deletion is kept for the items older than its deletion. A newer item finds it missing
// (contract.CameTooLate); otherwise the item would wait for a new object, and the old object for the item.
//
// # What is not kept
//
// References in the configuration of an item, such as a Secret with credentials for a registry: the host does not know
// them. ServiceAccounts of Targets: the API server accepts no token of one under deletion.
package inuse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Finalizer keeps a Target, a Context, a Secret or a ConfigMap as long as items use it.
const Finalizer = "host.pergola.dev/in-use"

// reasonInUse is the reason of the event about a kept object under deletion.
const reasonInUse = "InUse"

// Items calls a function with the metadata of each deploy item of a namespace in a cache. The function must not change
// it.
type Items func(namespace string, f func(*v1alpha1.DeployItem)) error

// Keeper puts the finalizer on objects in use, and removes it. Setup makes one. Its methods may be used concurrently.
type Keeper struct {
	cache, live client.Reader
	client      client.Client
	items       Items
	elected     func() bool
	recorder    events.EventRecorder
	wake        chan event.TypedGenericEvent[struct{}]

	mu sync.Mutex
	// left are the namespaces left to another replica.
	left sets.Set[string]
	// reported are the kept objects under deletion with an event about it.
	reported sets.Set[types.UID]
}

var _ reconcile.Reconciler = (*Keeper)(nil)

// Keep puts the finalizer on the objects for the deletion of an item, before anything is deployed for the item. used
// are its Target and its Context, as they were read for the job; one without a UID does not exist. Keep blocks on API
// requests until ctx ends, and sends none for objects with the finalizer. The error is that of the API server, wrapped.
func (k *Keeper) Keep(ctx context.Context, used ...client.Object) error {
	for _, object := range used {
		if object.GetUID() == "" {
			continue
		}
		if err := k.add(ctx, metadataOf(object)); err != nil {
			return err
		}
		for _, r := range namedBy(object) {
			named := newMetadata(r.kind)
			key := client.ObjectKey{Namespace: object.GetNamespace(), Name: r.name}
			err := k.cache.Get(ctx, key, named)
			if err == nil {
				err = k.add(ctx, named)
			}
			// The event of a later object has it kept.
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("keep %s %q: %w", r.kind, key, err)
			}
		}
	}
	return nil
}

// add puts the finalizer on an object just read.
func (k *Keeper) add(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	return edit(ctx, k.client, k.live, object, func() bool {
		return object.DeletionTimestamp == nil && controllerutil.AddFinalizer(object, Finalizer)
	})
}

// Reconcile puts the finalizer on the objects used by the items of a namespace, and removes it from all else there.
func (k *Keeper) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	namespace := request.Namespace
	if !k.elected() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.left.Insert(namespace)
		return reconcile.Result{}, nil
	}
	used, objects, err := k.read(ctx, namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	var errs []error
	for _, object := range objects {
		switch meta := metadataOf(object); used.next(object) {
		case stepAdd:
			errs = append(errs, k.add(ctx, meta))
		case stepRemove:
			errs = append(errs, remove(ctx, k.client, k.live, meta))
			k.forget(meta.UID)
		case stepReport:
			k.report(object)
		case stepNone:
		}
	}
	return reconcile.Result{}, errors.Join(errs...)
}

// read returns the uses of the items of a namespace, and the objects there in use or with the finalizer.
func (k *Keeper) read(ctx context.Context, namespace string) (uses, []client.Object, error) {
	used := uses{}
	if err := k.items(namespace, used.addItem); err != nil {
		return nil, nil, err
	}
	targets, contexts := &v1alpha1.TargetList{}, &v1alpha1.ContextList{}
	here, shared := client.InNamespace(namespace), client.UnsafeDisableDeepCopy // they are only read
	err := errors.Join(k.cache.List(ctx, targets, here, shared), k.cache.List(ctx, contexts, here, shared))
	if err != nil {
		return nil, nil, fmt.Errorf("list objects in use in the cache: %w", err)
	}
	var objects []client.Object
	for i := range targets.Items {
		used.addNamed(&targets.Items[i])
		objects = append(objects, &targets.Items[i])
	}
	for i := range contexts.Items {
		used.addNamed(&contexts.Items[i])
		objects = append(objects, &contexts.Items[i])
	}
	named, err := k.readNamed(ctx, namespace, used)
	return used, append(objects, named...), err
}

// readNamed returns the metadata of the objects of namedKinds in a namespace in use or with the finalizer.
func (k *Keeper) readNamed(ctx context.Context, namespace string, used uses) ([]client.Object, error) {
	var objects []client.Object
	found := sets.New[reference]()
	for _, kind := range namedKinds {
		kept := &metav1.PartialObjectMetadataList{}
		kept.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
		if err := k.cache.List(
			ctx, kept, client.InNamespace(namespace), client.UnsafeDisableDeepCopy, client.MatchingFields{keptField: "true"},
		); err != nil {
			return nil, fmt.Errorf("list kept objects in the cache: %w", err)
		}
		for i := range kept.Items {
			found.Insert(reference{kind, kept.Items[i].Name})
			objects = append(objects, &kept.Items[i])
		}
	}
	for r := range used {
		if !slices.Contains(namedKinds, r.kind) || found.Has(r) {
			continue
		}
		object := newMetadata(r.kind)
		err := k.cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.name}, object)
		if err == nil {
			objects = append(objects, object)
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read %s in the cache: %w", r.kind, err)
		}
	}
	return objects, nil
}

// report records once the keeping of an object.
func (k *Keeper) report(object client.Object) {
	k.mu.Lock()
	first := !k.reported.Has(object.GetUID())
	k.reported.Insert(object.GetUID())
	k.mu.Unlock()
	if first {
		k.recorder.Eventf(object, nil, corev1.EventTypeNormal, reasonInUse, "Keep",
			"the %s stays until the DeployItems that use it are gone, because their deletion needs it", kindOf(object))
	}
}

func (k *Keeper) forget(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reported.Delete(uid)
}

// newMetadata returns an empty object for metadata-only access to one of namedKinds.
func newMetadata(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}

// metadataOf returns a copy of the metadata for a write of finalizers.
func metadataOf(object client.Object) *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), DeletionTimestamp: object.GetDeletionTimestamp(),
		Finalizers: append([]string(nil), object.GetFinalizers()...),
	}}
	kind, group := kindOf(object), v1alpha1.GroupVersion
	if slices.Contains(namedKinds, kind) {
		group = corev1.SchemeGroupVersion
	}
	meta.SetGroupVersionKind(group.WithKind(kind))
	return meta
}
