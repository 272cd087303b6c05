package ignore

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Replicas is the field that an autoscaler sets.
var Replicas = Pointer{"spec", "replicas"}

// AutoscalerResource is where an API server has HorizontalPodAutoscalers.
var AutoscalerResource = schema.GroupVersionResource{
	Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers",
}

// Autoscalers finds out what HorizontalPodAutoscalers scale. It reads those of a namespace once, when it is asked about an
// object there whose replicas a write would change. It may be used by several goroutines.
type Autoscalers struct {
	list func(ctx context.Context, namespace string) (*unstructured.UnstructuredList, error)

	mu     sync.Mutex
	scaled map[string]map[target]bool
}

// target is what an autoscaler refers to.
type target struct{ group, kind, name string }

// NewAutoscalers returns Autoscalers that are read with a function.
func NewAutoscalers(
	list func(ctx context.Context, namespace string) (*unstructured.UnstructuredList, error),
) *Autoscalers {
	return &Autoscalers{list: list, scaled: map[string]map[target]bool{}}
}

// Scale reports whether the replicas of live, which differ from those of the manifest wanted, are an autoscaler's. Zero
// replicas, wanted or found, are not: with them an autoscaler does nothing. Where autoscalers cannot be read because
// they are not served, or without permission, there are none.
func (a *Autoscalers) Scale(ctx context.Context, wanted, live map[string]any) (bool, error) {
	if !replicasDiffer(wanted, live) {
		return false, nil
	}
	o := &unstructured.Unstructured{Object: live}
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
		known = targetsOf(list)
		a.scaled[o.GetNamespace()] = known
	}
	gvk := o.GroupVersionKind()
	return known[target{group: gvk.Group, kind: gvk.Kind, name: o.GetName()}], nil
}

func targetsOf(list *unstructured.UnstructuredList) map[target]bool {
	targets := map[target]bool{}
	for _, hpa := range list.Items {
		ref, _ := child(hpa.Object, "spec", "scaleTargetRef").(map[string]any)
		apiVersion, _ := ref["apiVersion"].(string)
		kind, _ := ref["kind"].(string)
		name, _ := ref["name"].(string)
		group, err := schema.ParseGroupVersion(apiVersion)
		if err == nil && hpa.GetDeletionTimestamp() == nil {
			targets[target{group: group.Group, kind: kind, name: name}] = true
		}
	}
	return targets
}

// replicasDiffer reports whether a write of the manifest could change the replicas of an object. One that names none
// may reset them to one.
func replicasDiffer(wanted, live map[string]any) bool {
	found, exists := child(live, Replicas...).(int64)
	asked, named := child(wanted, Replicas...).(int64)
	if !named {
		asked = 1
	}
	return exists && found != asked && found != 0 && asked != 0
}
