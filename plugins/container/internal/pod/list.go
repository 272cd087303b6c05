package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

const pageSize = 500

// The kinds of all objects of runs.
var (
	pods            = corev1.SchemeGroupVersion.WithResource("pods")
	secrets         = corev1.SchemeGroupVersion.WithResource("secrets")
	serviceAccounts = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	roles           = rbacv1.SchemeGroupVersion.WithResource("roles")
	roleBindings    = rbacv1.SchemeGroupVersion.WithResource("rolebindings")
)

// Remaining are the selected objects, Pods first, with nothing but their metadata.
type Remaining []RemainingObject

// RemainingObject is an existing object.
type RemainingObject struct {
	Kind schema.GroupVersionResource
	Meta metav1.ObjectMeta
}

// Remaining lists the objects of a selector.
func (c *Cluster) Remaining(ctx context.Context, selector Selector) (Remaining, error) {
	var all Remaining
	for _, kind := range []schema.GroupVersionResource{pods, secrets, serviceAccounts, roles, roleBindings} {
		found, err := c.list(ctx, kind, selector)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			all = append(all, RemainingObject{kind, o.ObjectMeta})
		}
	}
	return all, nil
}

// HasPods reports whether there are Pods among them.
func (r Remaining) HasPods() bool { return len(r) > 0 && r[0].Kind == pods }

// Names returns the objects as texts for the user.
func (r Remaining) Names() []string {
	names := make([]string, 0, len(r))
	for _, o := range r {
		names = append(names, fmt.Sprintf("%s %s/%s", o.Kind.Resource, o.Meta.Namespace, o.Meta.Name))
	}
	return names
}

// list lists page by page.
func (c *Cluster) list(
	ctx context.Context, kind schema.GroupVersionResource, selector Selector,
) ([]metav1.PartialObjectMetadata, error) {
	objects := c.Client.Metadata(target.Mapping{Resource: kind, Namespaced: true}, c.Namespace)
	options := metav1.ListOptions{LabelSelector: string(selector), Limit: pageSize}
	var all []metav1.PartialObjectMetadata
	for {
		page, err := objects.List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list %s in namespace %s: %w", kind.Resource, c.Namespace, err)
		}
		all = append(all, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// remove removes the objects of a selector, one kind after the other.
func (c *Cluster) remove(ctx context.Context, selector Selector, kinds ...schema.GroupVersionResource) error {
	for _, kind := range kinds {
		objects := c.Client.Metadata(target.Mapping{Resource: kind, Namespaced: true}, c.Namespace)
		selected := metav1.ListOptions{LabelSelector: string(selector)}
		err := objects.DeleteCollection(ctx, metav1.DeleteOptions{}, selected)
		if err != nil {
			return fmt.Errorf("delete %s in namespace %s: %w", kind.Resource, c.Namespace, err)
		}
	}
	return nil
}

// ErrStateIncomplete is the error about a state with a missing part.
var ErrStateIncomplete = errors.New("the state is not complete")

// UpstreamState returns Landscaper's newest state of an item; nil for none. The error is ErrStateIncomplete for a
// state with a missing part.
func (c *Cluster) UpstreamState(ctx context.Context, of Identity) (*v1alpha1.State, error) {
	// States of this deployer belong to a deleted item of the same name.
	all, err := c.list(ctx, secrets, of.LeftByUpstream())
	if err != nil || len(all) == 0 {
		return nil, err
	}
	names, err := newestState(all)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.State{Place: v1alpha1.Place{Namespace: c.Namespace}, Chunks: len(names), Secrets: names}, nil
}

// newestState returns the names of all chunks of the state with the newest chunk. There is at least one.
func newestState(all []metav1.PartialObjectMetadata) ([]string, error) {
	newest := slices.MaxFunc(all, func(a, b metav1.PartialObjectMetadata) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	id := newest.Annotations[StateIDAnnotation]
	chunks := map[int]string{}
	for _, o := range all {
		if o.Annotations[StateIDAnnotation] != id {
			continue
		}
		number, err := strconv.Atoi(o.Annotations[layout.NumberAnnotation])
		if err != nil || chunks[number] != "" {
			return nil, fmt.Errorf("%w: Secret %s/%s has the number %q in the annotation %s, "+
				"expected one of its own from 0", ErrStateIncomplete, o.Namespace, o.Name,
				o.Annotations[layout.NumberAnnotation], layout.NumberAnnotation)
		}
		chunks[number] = o.Name
	}
	names := make([]string, 0, len(chunks))
	for number := range len(chunks) {
		if chunks[number] == "" {
			return nil, fmt.Errorf("%w: of those with the annotation %s: %s there is no Secret with the number %d",
				ErrStateIncomplete, StateIDAnnotation, id, number)
		}
		names = append(names, chunks[number])
	}
	return names, nil
}
