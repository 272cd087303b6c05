package objects

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// Owned is an object with owners, to be deleted together with them.
type Owned struct {
	Key    object.Key
	Owners []metav1.OwnerReference
}

// Delete deletes an object if it still has its uid and, if unchanged is true, its resourceVersion.
//
// Its dependents go in the background. They must go: left to itself, the API server keeps the pods of a Job. They
// need not go before the object: a StatefulSet cannot have a pod under a name still in use, and others can live with
// pods of two generations, as they do during an update. A wait for dependents would let the job hang on any of them,
// also on those added by other clients.
func Delete(ctx context.Context, objects dynamic.ResourceInterface, o metav1.Object, unchanged bool) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	preconditions := &metav1.Preconditions{UID: &uid}
	if unchanged {
		preconditions.ResourceVersion = &version
	}
	background := metav1.DeletePropagationBackground
	return objects.Delete(ctx, o.GetName(), metav1.DeleteOptions{
		Preconditions: preconditions, PropagationPolicy: &background,
	})
}

// Patch changes an object by a patch if it still has its uid. For any other object of its name the API server says that
// the uid is invalid.
func Patch(
	ctx context.Context, in dynamic.ResourceInterface, o metav1.Object, kind types.PatchType, patch map[string]any,
	dryRun ...string,
) (*unstructured.Unstructured, error) {
	document, err := json.Marshal(Compose(patch, map[string]any{"metadata": map[string]any{"uid": string(o.GetUID())}}))
	if err != nil {
		return nil, fmt.Errorf("write the patch as JSON: %w", err)
	}
	options := metav1.PatchOptions{FieldManager: owner.FieldManager, DryRun: dryRun}
	return in.Patch(ctx, o.GetName(), kind, document, options)
}
