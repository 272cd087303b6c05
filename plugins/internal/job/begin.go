package job

import (
	"cmp"
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// reasonTargetChanged is given to the error about a Target that leads to another cluster than the one that something is
// managed on.
const reasonTargetChanged = "TargetChanged"

// clusterKnown is for how long it is taken for known where a target leads.
const clusterKnown = time.Minute

// Begin finds out whether the target is still the cluster that the objects of the inventory are on, and makes the
// inventory name them as the target does. namespace is where objects are that name none, see normalize. Until it has
// succeeded nothing is known to be gone.
func (j *Job) Begin(ctx context.Context, namespace string) error {
	err := j.checkCluster(ctx)
	if err == nil {
		err = j.normalize(ctx, namespace)
	}
	return target.Explain(j.Client.Host, err)
}

// checkCluster notes the cluster of the target, or refuses to go on with another one: what is managed would seem to be
// gone there. Where one of the two is not known, nothing is refused.
func (j *Job) checkCluster(ctx context.Context) error {
	before := j.Status.cluster
	found, err := j.Client.Cluster(ctx, j.Began.Add(-clusterKnown))
	if err == nil && before != "" && found != before { // it may lead to the one before again
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

// normalize makes the inventory name its objects as the target does. Landscaper notes them as the manifests are
// written: a cluster-scoped object may have a namespace there, and a namespaced one none. Such an object is in the
// given namespace; empty for that of kubectl.
func (j *Job) normalize(ctx context.Context, namespace string) error {
	return j.Status.Inventory.Normalize(func(r managedresource.ObjectReference) (string, error) {
		mapping, err := j.Client.MappingInAnyVersion(ctx, object.GVK(r.APIVersion, r.Kind), j.Began)
		switch {
		case target.ConcernsAll(ctx, err):
			return "", err
		case err != nil:
			return r.Namespace, nil //nolint:nilerr // nobody can tell, as with a kind that is not served any more
		case !mapping.Namespaced:
			return "", nil
		default:
			return cmp.Or(r.Namespace, namespace, apply.DefaultNamespace), nil
		}
	})
}
