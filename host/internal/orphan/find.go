package orphan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/mark"
)

// listers bounds the parallel lists.
const listers = 8

// controllerManager is the field manager of the controllers of Kubernetes.
const controllerManager = "kube-controller-manager"

// Cluster is a cluster of a search.
type Cluster struct {
	// Name in messages and reports.
	Name   string
	Config *rest.Config
}

// Find finds objects on targets without their deploy item in the control plane. installations are further installations
// of its deploy items.
func Find(ctx context.Context, control Cluster, targets []Cluster, installations []string) (*Report, error) {
	client, err := metadata.NewForConfig(control.Config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", control.Name, err)
	}
	own, err := ownInstallation(ctx, client, len(installations) > 0)
	if err != nil {
		return nil, err
	}
	report := &Report{Objects: []Object{}, OtherInstallations: map[string]int{}}
	var found []marked
	for _, target := range targets {
		objects, unlisted, err := target.marked(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", target.Name, err)
		}
		found, report.Unlisted = append(found, objects...), append(report.Unlisted, unlisted...)
	}
	// Deploy items are listed after the objects: an object created meanwhile has its deploy item in the list.
	all, err := list(ctx, client, v1alpha1.GroupVersion.WithResource("deployitems"), "")
	if err != nil {
		return nil, fmt.Errorf("list DeployItems of all namespaces: %w", err)
	}
	existing := newItems(all, append(slices.Clone(installations), own))
	for _, o := range found {
		switch existing.relationTo(&o.meta) {
		case orphaned:
			report.Objects = append(report.Objects, o.object())
		case elsewhere:
			report.OtherInstallations[installationOf(&o.meta)]++
		case living:
		}
	}
	slices.SortFunc(report.Objects, compare)
	return report, nil
}

// ownInstallation returns the installation of a control plane as target.Installation.Mark does; "" for none. optional
// allows missing rights.
func ownInstallation(ctx context.Context, control metadata.Interface, optional bool) (string, error) {
	namespaces := control.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	namespace, err := namespaces.Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err) && optional:
		return "", nil
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("read the mark of the installation; if you know the UID of this namespace, "+
			"name it with --installation: %w", err)
	case err != nil:
		return "", fmt.Errorf("read the mark of the installation: %w", err)
	}
	return string(namespace.UID), nil
}

// kind is a type of objects.
type kind struct {
	name     string
	resource schema.GroupVersionResource
}

// marked is an object with the mark of a deploy item.
type marked struct {
	target string
	kind   kind
	meta   metav1.PartialObjectMetadata
}

func (m *marked) object() Object {
	return Object{
		Target: m.target, APIVersion: m.kind.resource.GroupVersion().String(), Kind: m.kind.name,
		Resource:  m.kind.resource.GroupResource().String(),
		Namespace: m.meta.Namespace, Name: m.meta.Name, UID: m.meta.UID,
		DeployItem: m.meta.Labels[mark.DeployItem], DeployItemUID: itemUIDOf(&m.meta), Installation: installationOf(&m.meta),
	}
}

// marked returns the objects of the cluster with the mark of a deploy item, each once, and the types with failed lists.
// An error is a failed discovery.
func (c *Cluster) marked(ctx context.Context) ([]marked, []Unlisted, error) {
	kinds, unlisted, err := c.kinds(ctx)
	if err != nil {
		return nil, nil, err
	}
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	type result struct {
		objects []metav1.PartialObjectMetadata
		err     error
	}
	results := make([]result, len(kinds))
	var group errgroup.Group
	group.SetLimit(listers)
	for i, k := range kinds {
		group.Go(func() error {
			results[i].objects, results[i].err = list(ctx, client, k.resource, mark.DeployItem)
			return nil
		})
	}
	_ = group.Wait() // the errors are in the results
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	var all []marked
	seen := map[types.UID]bool{} // several groups may have the same objects
	for i, r := range results {
		if r.err != nil {
			unlisted = append(unlisted, c.unlisted(kinds[i].resource.GroupResource().String(), r.err))
		}
		for _, o := range r.objects {
			if !seen[o.UID] && !goesWithAnother(&o) {
				all = append(all, marked{c.Name, kinds[i], o})
			}
			seen[o.UID] = true
		}
	}
	return all, unlisted, nil
}

func (c *Cluster) unlisted(resource string, err error) Unlisted {
	return Unlisted{Target: c.Name, Resource: resource, Error: err.Error(), Forbidden: apierrors.IsForbidden(err)}
}

// goesWithAnother reports whether an object was made for another object with the same labels and is removed with it. It
// has a controller, as an EndpointSlice, or Kubernetes is its only writer, as for Endpoints of a Service.
func goesWithAnother(o metav1.Object) bool {
	fields := o.GetManagedFields()
	isOther := func(e metav1.ManagedFieldsEntry) bool { return e.Manager != controllerManager }
	written := slices.ContainsFunc(fields, isOther)
	return metav1.GetControllerOf(o) != nil || len(fields) > 0 && !written
}

// kinds returns the types of stored objects, without computed types such as metrics.
func (c *Cluster) kinds(ctx context.Context) ([]kind, []Unlisted, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	lists, err := client.ServerPreferredResourcesWithContext(ctx)
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return nil, nil, fmt.Errorf("discover the types of objects: %w", err)
	}
	// The client takes a refusal of /apis for an API server with core types only.
	if len(lists) <= 1 {
		return nil, nil, errors.New("discover the types of objects: the API server has core types only; " +
			"may these credentials read /api and /apis?")
	}
	var unlisted []Unlisted
	if partial != nil {
		for version, failure := range partial.Groups {
			unlisted = append(unlisted, c.unlisted("*."+version.String(), failure))
		}
	}
	var kinds []kind
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, fmt.Errorf("discover the types of objects: %w", err)
		}
		for _, r := range list.APIResources {
			kinds = append(kinds, kind{r.Kind, version.WithResource(r.Name)})
		}
	}
	return kinds, unlisted, nil
}

// list lists the metadata of the objects of a type in all namespaces, optionally with a label.
func list(
	ctx context.Context, client metadata.Interface, resource schema.GroupVersionResource, label string,
) ([]metav1.PartialObjectMetadata, error) {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.Resource(resource).List(ctx, options)
	})
	all, _, err := pages.List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return nil, err
	}
	var objects []metav1.PartialObjectMetadata
	err = meta.EachListItem(all, func(o runtime.Object) error {
		object, ok := o.(*metav1.PartialObjectMetadata)
		if !ok {
			return fmt.Errorf("expected metadata, but found %T", o)
		}
		objects = append(objects, *object)
		return nil
	})
	return objects, err
}
