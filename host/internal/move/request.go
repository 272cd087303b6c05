package move

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Request is the request of a user to move an item. An empty name stands for the Target of the item.
type Request struct{ From, To, Order string }

// Apply makes the request in an item, and returns it with both names.
func (r Request) Apply(item *v1alpha1.DeployItem) (complete Request, err error) {
	own, hasTarget := contract.TargetOfItem(item)
	r.From, r.To = cmp.Or(r.From, own), cmp.Or(r.To, own)
	ofLandscaper := func(o metav1.OwnerReference) bool { return o.Kind == "Execution" }
	switch {
	case !hasTarget:
		return r, errors.New("spec.target: expected a Target, but found none; there is nothing to move")
	case r.From == r.To:
		return r, fmt.Errorf("the Target %q is both the old and the new one; name another one with --to or --from", own)
	case slices.ContainsFunc(item.OwnerReferences, ofLandscaper):
		return r, errors.New("it belongs to a Landscaper, where items do not move; change the Target of its installation")
	}
	metav1.SetMetaDataAnnotation(&item.ObjectMeta, FromAnnotation, r.From)
	metav1.SetMetaDataAnnotation(&item.ObjectMeta, OrderAnnotation, r.Order)
	if r.To == own { // else the change of the spec starts a job
		metav1.SetMetaDataAnnotation(&item.ObjectMeta, v1alpha1.OperationAnnotation, v1alpha1.OperationReconcile)
	}
	item.Spec.Target.Name = r.To
	return r, nil
}
