package registration

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// object names something that a hook is made of.
type object struct {
	schema.GroupVersionKind
	types.NamespacedName
}

// objectsOf are the objects that a hook is made of.
func objectsOf(hook *v1alpha1.Hook) []object {
	var objects []object
	if ref := hook.Address.Ref; ref != nil {
		objects = append(objects, object{
			GroupVersionKind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind),
			NamespacedName:   types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name},
		})
	}
	secret := func(ref v1alpha1.NamespacedSecretReference) {
		objects = append(objects, object{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret"),
			NamespacedName:   types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name},
		})
	}
	if hook.TLS != nil && hook.TLS.SecretRef != nil {
		secret(*hook.TLS.SecretRef)
	}
	if hook.Auth != nil {
		secret(hook.Auth.SecretRef)
	}
	return objects
}

// watch calls changed for what happens to an object, and once in the beginning if it is there, until ctx ends. A watch that cannot be had
// is tried again with growing pauses.
func (r *Registry) watch(ctx context.Context, o object, changed func()) {
	var retries backoff
	told := false
	for {
		seen, err := r.watchOnce(ctx, o, changed)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !told {
			told = true
			r.options.Log.Warn("an object that an HTTP hook depends on cannot be watched, and is read every "+refreshInterval.String(),
				"kind", o.GroupVersionKind.String(), "object", o.NamespacedName.String(), "error", err.Error())
		}
		if seen {
			retries, told = backoff{}, false
		}
		if !r.sleep(ctx, retries.fail()) {
			return
		}
	}
}

// watchOnce watches an object until the API server ends the watch, and tells whether it has seen anything.
func (r *Registry) watchOnce(ctx context.Context, o object, changed func()) (seen bool, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(o.GroupVersion().WithKind(o.Kind + "List"))
	events, err := r.options.Client.Watch(ctx, list, client.InNamespace(o.Namespace), client.MatchingFields{metav1.ObjectNameField: o.Name})
	if err != nil {
		return false, fmt.Errorf("watch: %w", err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			seen = true
			changed()
		case watch.Bookmark, watch.Error: // after an error the channel is closed
		}
	}
	return seen, nil
}
