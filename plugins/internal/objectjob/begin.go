package objectjob

import (
	"cmp"
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// clusterKnown is the greatest age of a cached cluster identity.
const clusterKnown = time.Minute

// Begin checks that the Target still leads to the cluster of the inventory's objects, and gives the entries their
// namespaces; namespace is the default, see normalize. It belongs before any reading of "not found" as "deleted".
func (j *Job) Begin(ctx context.Context, namespace string) error {
	err := j.checkCluster(ctx)
	if err == nil {
		err = j.normalize(ctx, namespace)
	}
	return target.Explain(j.Client.Host, err)
}

// checkCluster notes the cluster of the Target, and refuses another one than before.
func (j *Job) checkCluster(ctx context.Context) error {
	before := j.Status.cluster
	found, err := j.Client.Cluster(ctx, j.Began.Add(-clusterKnown))
	if err == nil && before != "" && found != before { // it may be the cluster before again
		found, err = j.Client.Cluster(ctx, j.Began)
	}
	if err == nil {
		err = j.SameCluster(metav1.NamespaceSystem, before, found, landscaper.DeleteWithoutUninstallAnnotation)
	}
	if err == nil && found != "" {
		j.Status.cluster = found
	}
	return err
}

// normalize gives the entries of the inventory the namespaces of the target. Landscaper notes them as in the
// manifests: a cluster-scoped object may have a namespace there, and a namespaced object none. Such a namespaced
// object is in the given namespace; empty for that of kubectl.
func (j *Job) normalize(ctx context.Context, namespace string) error {
	return j.Status.Inventory.Normalize(func(r managedresource.ObjectReference) (string, error) {
		mapping, err := j.Client.MappingInAnyVersion(ctx, object.GVK(r.APIVersion, r.Kind), j.Began)
		switch {
		case target.ConcernsAll(ctx, err):
			return "", err
		case err != nil:
			return r.Namespace, nil //nolint:nilerr // unknown, as with a kind no longer served
		case !mapping.Namespaced:
			return "", nil
		default:
			return cmp.Or(r.Namespace, namespace, desired.DefaultNamespace), nil
		}
	})
}
