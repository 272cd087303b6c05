package ignore

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Replicas is the field set by an autoscaler.
var Replicas = Pointer{"spec", "replicas"}

// AutoscalerResource is the resource of HorizontalPodAutoscalers.
var AutoscalerResource = schema.GroupVersionResource{
	Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers",
}

// Autoscalers finds the objects scaled by HorizontalPodAutoscalers. It reads those of a namespace once, when a write
// would change the replicas of an object there. It may be used by several goroutines.
type Autoscalers struct {
	list    func(ctx context.Context, namespace string) (*unstructured.UnstructuredList, error)
	changes Changes

	mu     sync.Mutex
	scaled map[string]map[target]bool
}

// target is the reference of an autoscaler.
type target struct{ group, kind, name string }

// Changes are the autoscalers about to be created or deleted.
type Changes struct {
	// Wanted are objects, with their namespaces. Autoscalers among them count before their creation.
	Wanted []*unstructured.Unstructured
	// Dropped reports whether an autoscaler is about to be deleted. Nil if none is.
	Dropped func(namespace, name string) bool
}

// Kind is that of autoscalers.
var Kind = schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}

// NewAutoscalers returns Autoscalers with a function to list them.
func NewAutoscalers(
	list func(ctx context.Context, namespace string) (*unstructured.UnstructuredList, error), changes Changes,
) *Autoscalers {
	return &Autoscalers{list: list, changes: changes, scaled: map[string]map[target]bool{}}
}

// Scale reports whether the replicas of live, different from those of the manifest wanted, are an autoscaler's. Zero
// replicas, wanted or found, are not: with them an autoscaler does nothing. Where autoscalers are not served, or not
// readable without permission, there are none.
func (a *Autoscalers) Scale(ctx context.Context, wanted, live map[string]any) (bool, error) {
	o := &unstructured.Unstructured{Object: live}
	if o.GetNamespace() == "" || !replicasDiffer(wanted, live) { // autoscalers scale objects of their namespaces
		return false, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	known, read := a.scaled[o.GetNamespace()]
	if !read {
		list, err := a.list(ctx, o.GetNamespace())
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			list = &unstructured.UnstructuredList{}
		case err != nil:
			return false, fmt.Errorf("list HorizontalPodAutoscalers: %w", err)
		}
		known = a.targetsOf(list, o.GetNamespace())
		a.scaled[o.GetNamespace()] = known
	}
	gvk := o.GroupVersionKind()
	return known[target{group: gvk.Group, kind: gvk.Kind, name: o.GetName()}], nil
}

func (a *Autoscalers) targetsOf(list *unstructured.UnstructuredList, namespace string) map[target]bool {
	targets := map[target]bool{}
	for i := range list.Items {
		hpa := &list.Items[i]
		dropped := a.changes.Dropped != nil && a.changes.Dropped(namespace, hpa.GetName())
		if !dropped && hpa.GetDeletionTimestamp() == nil {
			targets[targetOf(hpa)] = true
		}
	}
	for _, o := range a.changes.Wanted {
		if o.GetNamespace() == namespace && o.GroupVersionKind().GroupKind() == Kind {
			targets[targetOf(o)] = true
		}
	}
	return targets
}

func targetOf(hpa *unstructured.Unstructured) target {
	ref := child(hpa.Object, "spec", "scaleTargetRef")
	apiVersion, _ := child(ref, "apiVersion").(string)
	kind, _ := child(ref, "kind").(string)
	name, _ := child(ref, "name").(string)
	return target{group: schema.FromAPIVersionAndKind(apiVersion, kind).Group, kind: kind, name: name}
}

// replicasDiffer reports whether a write of the manifest could change the replicas of an object. A manifest without
// replicas may reset them to one.
func replicasDiffer(wanted, live map[string]any) bool {
	found, exists := child(live, Replicas...).(int64)
	asked, named := child(wanted, Replicas...).(int64)
	if !named {
		asked = 1
	}
	return exists && found != asked && found != 0 && asked != 0
}
