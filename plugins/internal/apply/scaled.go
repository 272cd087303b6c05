package apply

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// NewAutoscalers returns the autoscalers of the target, with those of a plan as they are to be.
func NewAutoscalers(client *target.Client, plan *Plan, recorded Recorded) *ignore.Autoscalers {
	list := func(ctx context.Context, namespace string) (*unstructured.UnstructuredList, error) {
		mapping := target.Mapping{Resource: ignore.AutoscalerResource, Namespaced: true}
		return client.Objects(mapping, namespace).List(ctx, metav1.ListOptions{})
	}
	changes := ignore.Changes{Dropped: func(namespace, name string) bool {
		key := object.Key{Group: ignore.Kind.Group, Kind: ignore.Kind.Kind, Namespace: namespace, Name: name}
		_, known := recorded(key)
		_, wanted := plan.keys[key]
		return known && !wanted
	}}
	for _, i := range plan.Items() {
		changes.Wanted = append(changes.Wanted, i.Desired)
	}
	return ignore.NewAutoscalers(list, changes)
}

// IgnoringScaled adds the replicas to the fields of other clients if an autoscaler scales the object.
func IgnoringScaled(
	ctx context.Context, autoscalers *ignore.Autoscalers, i *desired.Object, live *unstructured.Unstructured,
) (*desired.Object, error) {
	scaled, err := autoscalers.Scale(ctx, i.Desired.Object, live.Object)
	if err != nil || !scaled {
		return i, err
	}
	return i.Ignoring(ignore.Replicas), nil
}
