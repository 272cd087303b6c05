package replica

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watch is the watch of pods and Leases, which goes on until it is stopped.
type watch struct {
	cancel context.CancelFunc
	ended  chan error // takes the end of the watch
}

// stop stops the watch and waits until it has ended.
func (w *watch) stop() error {
	w.cancel()
	return <-w.ended
}

// startWatch starts to feed what happens to pods and Leases, and blocks until it has fed what there is, or ctx ends. The watch goes on
// after that; it must be stopped.
func startWatch(ctx context.Context, c *connection, namespace string, feed *Feed) (*watch, error) {
	pods := &metav1.PartialObjectMetadata{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	running := fields.ParseSelectorOrDie("status.phase!=Succeeded,status.phase!=Failed")
	objects, err := cache.New(c.config, cache.Options{
		HTTPClient: c.http, Scheme: c.scheme, Mapper: c.mapper,
		DefaultNamespaces: map[string]cache.Config{namespace: {}},
		DefaultTransform:  cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			pods:                    {Field: running},
			&coordinationv1.Lease{}: {Label: labels.SelectorFromSet(labels.Set{LabelReplica: "true"})},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the watch of pods and Leases: %w", err)
	}
	podsFed, err := handle(ctx, objects, pods, podHandler(feed))
	if err != nil {
		return nil, err
	}
	leasesFed, err := handle(ctx, objects, &coordinationv1.Lease{}, leaseHandler(feed))
	if err != nil {
		return nil, err
	}
	watchCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &watch{cancel: cancel, ended: make(chan error, 1)}
	go func() { w.ended <- objects.Start(watchCtx) }()
	if !toolscache.WaitForCacheSync(ctx.Done(), podsFed.HasSynced, leasesFed.HasSynced) {
		return nil, errors.Join(fmt.Errorf("wait for pods and Leases: %w", context.Cause(ctx)), w.stop())
	}
	return w, nil
}

func handle(ctx context.Context, objects cache.Cache, kind client.Object, handler toolscache.ResourceEventHandler) (
	toolscache.ResourceEventHandlerRegistration, error) {
	informer, err := objects.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", kind, err)
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", kind, err)
	}
	return registration, nil
}

func podHandler(feed *Feed) toolscache.ResourceEventHandler {
	seen := func(object any) {
		if pod, ok := object.(*metav1.PartialObjectMetadata); ok {
			feed.PodSeen(pod.Name, pod.UID)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, object any) { seen(object) },
		DeleteFunc: func(object any) {
			if pod, ok := lastKnown(object).(*metav1.PartialObjectMetadata); ok {
				feed.PodMissing(pod.Name)
			}
		},
	}
}

func leaseHandler(feed *Feed) toolscache.ResourceEventHandler {
	seen := func(object any) {
		if lease, ok := object.(*coordinationv1.Lease); ok {
			feed.LeaseSeen(lease, false)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, object any) { seen(object) },
		DeleteFunc: func(object any) {
			if lease, ok := lastKnown(object).(*coordinationv1.Lease); ok {
				feed.LeaseGone(podOf(lease).Name, lease.ResourceVersion)
			}
		},
	}
}

// lastKnown returns what was known of a deleted object last; the watch may have missed the deletion.
func lastKnown(object any) any {
	if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		return missed.Obj
	}
	return object
}
