package controller

import (
	"bytes"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// exportKey is the key of the export secret under which Landscaper looks for all values.
const exportKey = "config"

// exportTimeout bounds the requests of one export.
const exportTimeout = 15 * time.Second

// exporter writes the exports of a job into the Secret "<item>-export", or the one that the item's status names.
type exporter struct {
	live client.Client
}

// write creates or updates the Secret, and returns a reference to it; nil if there is nothing to export. If a Secret of
// that name does not belong to the item, or the API server refuses the exports, the error is a contract.Error that ends
// the job. verify returns an error if the item's lock was lost; it is called between the read of the Secret and its
// conditional write, so that old values never replace those of the next holder.
func (e *exporter) write(
	ctx context.Context, item *v1alpha1.DeployItem, values []byte, verify func(context.Context) error,
) (*v1alpha1.ObjectReference, error) {
	if values == nil {
		return nil, nil //nolint:nilnil // nothing to export is an ordinary case and no error
	}
	// A host that stops still exports the outcome of its last calls.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTimeout)
	defer cancel()
	secret := exportSecret(item, values)
	ref := &v1alpha1.ObjectReference{Name: secret.Name, Namespace: secret.Namespace}
	err := e.live.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = e.update(ctx, item, client.ObjectKeyFromObject(secret), values, verify)
	}
	switch {
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		return nil, contract.Error{
			Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
			Operation: "WriteExports",
			Reason:    "ExportsRefused",
			Message: fmt.Sprintf("the API server refuses Secret %q with %d bytes of exports: %v; export less, "+
				"or, if it is the name that is refused, give the deploy item a shorter one", ref.Name, len(values), err),
		}
	case err != nil:
		return nil, fmt.Errorf("write export secret %q: %w", ref.Name, err)
	default:
		return ref, nil
	}
}

func (e *exporter) update(
	ctx context.Context, item *v1alpha1.DeployItem, key client.ObjectKey, values []byte,
	verify func(context.Context) error,
) error {
	secret := &corev1.Secret{}
	if err := e.live.Get(ctx, key, secret); err != nil {
		return err
	}
	if !belongsTo(secret, item) {
		return contract.Error{
			Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
			Operation: "WriteExports",
			Reason:    "ExportSecretConflict",
			Message: fmt.Sprintf("Secret %q exists and does not belong to this deploy item; its exports need this name: "+
				"rename or delete the secret", key.Name),
		}
	}
	before := secret.DeepCopy()
	if left := ownerOfThatName(secret, item); left != nil {
		left.UID = item.UID
	} else if bytes.Equal(secret.Data[exportKey], values) {
		return nil
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[exportKey] = values
	if err := verify(ctx); err != nil {
		return err
	}
	return e.live.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// belongsTo reports whether a Secret is the item's: the item owns it, or its status names it, or an item of the same
// name, which is gone, has left it.
func belongsTo(secret *corev1.Secret, item *v1alpha1.DeployItem) bool {
	for _, owner := range secret.OwnerReferences {
		if owner.UID == item.UID {
			return true
		}
	}
	ref := item.Status.ExportReference
	return ref != nil && ref.Name == secret.Name || ownerOfThatName(secret, item) != nil
}

// ownerOfThatName returns the Secret's owner that was a deploy item of the same name, which is gone as there is another
// one. The garbage collector will delete the Secret unless it gets its new owner.
func ownerOfThatName(secret *corev1.Secret, item *v1alpha1.DeployItem) *metav1.OwnerReference {
	for i, owner := range secret.OwnerReferences {
		if owner.APIVersion == v1alpha1.GroupVersion.String() && owner.Kind == "DeployItem" &&
			owner.Name == item.Name && owner.UID != item.UID {
			return &secret.OwnerReferences[i]
		}
	}
	return nil
}

func exportSecret(item *v1alpha1.DeployItem, values []byte) *corev1.Secret {
	name := item.Name + "-export"
	if ref := item.Status.ExportReference; ref != nil && ref.Name != "" {
		name = ref.Name
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:      name,
			Namespace: item.Namespace,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(),
				Kind:       "DeployItem",
				Name:       item.Name,
				UID:        item.UID,
			}},
		},
		Data: map[string][]byte{exportKey: values},
	}
}
