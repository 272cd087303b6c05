package rollout

import (
	"cmp"
	"context"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/targeterror"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Begin makes the ledger name its objects as the target does. Landscaper notes them as the manifests are written: a cluster-scoped object may
// have a namespace there, and a namespaced one none. Such an object is in the given namespace; empty for that of kubectl.
func (j *Job) Begin(ctx context.Context, namespace string) error {
	err := j.Account.Ledger.Normalize(func(r managedresource.ObjectReference) (string, error) {
		mapping, err := j.Client.MappingInAnyVersion(ctx, object.GVK(r.APIVersion, r.Kind), j.Began)
		switch {
		case targeterror.ConcernsAll(ctx, err):
			return "", err
		case err != nil: // Nobody can tell, as with a kind that is not served any more.
			return r.Namespace, nil
		case !mapping.Namespaced:
			return "", nil
		default:
			return cmp.Or(r.Namespace, namespace, apply.DefaultNamespace), nil
		}
	})
	return targeterror.Explain(j.Client.Host, err)
}
