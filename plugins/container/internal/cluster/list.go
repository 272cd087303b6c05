package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/container/internal/run"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

const pageSize = 500

// kinds are those of all objects of runs.
var kinds = []schema.GroupVersionResource{
	corev1.SchemeGroupVersion.WithResource("pods"),
	corev1.SchemeGroupVersion.WithResource("secrets"),
	corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
	rbacv1.SchemeGroupVersion.WithResource("roles"),
	rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
}

// Remaining are the objects that a selector selects, by their kinds, without anything but their metadata.
type Remaining map[schema.GroupVersionResource][]metav1.PartialObjectMetadata

// Remaining lists the objects that a selector selects.
func (c *Cluster) Remaining(ctx context.Context, selector run.Selector) (Remaining, error) {
	all := Remaining{}
	for _, kind := range kinds {
		found, err := c.list(ctx, kind, selector)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			all[kind] = found
		}
	}
	return all, nil
}

// HasPods tells whether there are Pods among them.
func (r Remaining) HasPods() bool { return len(r[kinds[0]]) > 0 }

// Names names the objects for people, in the order of their kinds.
func (r Remaining) Names() []string {
	var names []string
	for _, kind := range kinds {
		for _, o := range r[kind] {
			names = append(names, fmt.Sprintf("%s %s/%s", kind.Resource, o.Namespace, o.Name))
		}
	}
	return names
}

// list lists page by page.
func (c *Cluster) list(ctx context.Context, kind schema.GroupVersionResource, selector run.Selector) ([]metav1.PartialObjectMetadata, error) {
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

// ErrStateIncomplete says that a part of a state is missing.
var ErrStateIncomplete = errors.New("the state is not complete")

// UpstreamState returns the newest state that Landscaper has left for a deploy item; nil if there is none. The error is
// ErrStateIncomplete if a part of it is missing.
func (c *Cluster) UpstreamState(ctx context.Context, of run.Identity) (*v1alpha1.State, error) {
	all, err := c.list(ctx, kinds[1], of.UpstreamStates())
	if err != nil {
		return nil, err
	}
	// Those of this deployer are of another deploy item of that name, which is gone.
	all = slices.DeleteFunc(all, func(o metav1.PartialObjectMetadata) bool { return o.Labels[run.ItemLabel] != "" })
	if len(all) == 0 {
		return nil, nil //nolint:nilnil // none is no error
	}
	names, err := newestState(all)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.State{Place: v1alpha1.Place{Namespace: c.Namespace}, Chunks: len(names), Secrets: names}, nil
}

// newestState returns the names of the chunks of the state of which one was created last. There is at least one.
func newestState(all []metav1.PartialObjectMetadata) ([]string, error) {
	newest := slices.MaxFunc(all, func(a, b metav1.PartialObjectMetadata) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	id := newest.Annotations[run.StateIDAnnotation]
	chunks := map[int]string{}
	for _, o := range all {
		if o.Annotations[run.StateIDAnnotation] != id {
			continue
		}
		number, err := strconv.Atoi(o.Annotations[run.StateNumberAnnotation])
		if err != nil || chunks[number] != "" {
			return nil, fmt.Errorf("%w: Secret %s/%s has the number %q in the annotation %s, expected one of its own from 0",
				ErrStateIncomplete, o.Namespace, o.Name, o.Annotations[run.StateNumberAnnotation], run.StateNumberAnnotation)
		}
		chunks[number] = o.Name
	}
	names := make([]string, 0, len(chunks))
	for number := range len(chunks) {
		if chunks[number] == "" {
			return nil, fmt.Errorf("%w: of those with the annotation %s: %s there is no Secret with the number %d", ErrStateIncomplete, run.StateIDAnnotation, id, number)
		}
		names = append(names, chunks[number])
	}
	return names, nil
}

// Parts returns the parts that there are of each run, in the order of their names.
func (r Remaining) Parts() []Part {
	var parts []Part
	for _, objects := range r {
		for _, o := range objects {
			parts = append(parts, Part{
				Run: o.Labels[run.RunLabel], Part: o.Labels[run.PartLabel], JobID: o.Annotations[run.JobAnnotation],
				Namespace: o.Annotations[run.NamespaceAnnotation], Name: o.Annotations[run.NameAnnotation], UID: o.Labels[run.ItemLabel],
			})
		}
	}
	slices.SortFunc(parts, func(a, b Part) int { return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Part, b.Part)) })
	return slices.Compact(parts)
}

// Part is a part of a run that there are objects of.
type Part struct {
	Run, Part, JobID string
	// Namespace, Name and UID of the deploy item.
	Namespace, Name, UID string
}
