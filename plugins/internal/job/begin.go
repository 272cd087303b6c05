package job

import (
	"cmp"
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// reasonTargetChanged is the reason of the error about a Target with another cluster than before.
const reasonTargetChanged = "TargetChanged"

// clusterKnown is the greatest age of a cached answer about the cluster of a target.
const clusterKnown = time.Minute

// Begin checks that the target is still the cluster of the inventory's objects, and gives the entries the namespaces
// of the target. namespace is that of objects without one, see normalize. Before its success no object counts as
// gone.
func (j *Job) Begin(ctx context.Context, namespace string) error {
	err := j.checkCluster(ctx)
	if err == nil {
		err = j.normalize(ctx, namespace)
	}
	return target.Explain(j.Client.Host, err)
}

// checkCluster notes the cluster of the target. Another one than before is an error, because the managed objects
// would seem to be gone there; an unknown cluster, before or now, is not.
func (j *Job) checkCluster(ctx context.Context) error {
	before := j.Status.cluster
	found, err := j.Client.Cluster(ctx, j.Began.Add(-clusterKnown))
	if err == nil && before != "" && found != before { // it may be the cluster before again
		found, err = j.Client.Cluster(ctx, j.Began)
	}
	switch {
	case err != nil:
		return err
	case found == "" || found == before:
		return nil
	case before != "":
		return sdk.ConfigurationError(reasonTargetChanged, "what the deploy item has deployed is on another "+
			"cluster than Target %q leads to now: the namespace %s had the UID %s there, and has %s here; "+
			"let the Target lead to that cluster again, or, if what is there is to stay behind, "+
			"delete the deploy item with the annotation %s: %q",
			j.Request.Target.Name, metav1.NamespaceSystem, before, found,
			landscaper.DeleteWithoutUninstallAnnotation, "true")
	default:
		j.Status.cluster = found
		return nil
	}
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
