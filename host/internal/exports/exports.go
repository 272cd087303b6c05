// Package exports writes the exports of jobs into Secrets.
package exports

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// key is the key of all values in the Secret, as Landscaper expects it.
	key = "config"
	// timeout bounds the requests of one export.
	timeout = 15 * time.Second
)

// Writer writes exports. Create it with New.
type Writer struct {
	api client.Client
}

// New returns a Writer. api reads Secrets from the API server, and not from a cache.
func New(api client.Client) *Writer { return &Writer{api: api} }

// Write writes the exports of an item's job into the Secret "<item>-export", or another one by the item's status, and
// returns a reference to it; nil if there is nothing to export. If the Secret belongs to another owner, or if the API
// server refuses the exports, the error is a contract.Error, and final. verify returns an error if the item's lock is
// lost, and so does Write then.
func (w *Writer) Write(
	ctx context.Context, item *v1alpha1.DeployItem, values []byte, verify func(context.Context) error,
) (*v1alpha1.ObjectReference, error) {
	if values == nil {
		return nil, nil //nolint:nilnil // nothing to export is an ordinary case and no error
	}
	// A host that stops still exports the outcome of its last calls.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	secret := secretOf(item, values)
	ref := &v1alpha1.ObjectReference{Name: secret.Name, Namespace: secret.Namespace}
	err := w.api.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = w.update(ctx, item, client.ObjectKeyFromObject(secret), values, verify)
	}
	switch {
	case apierrors.IsInvalid(err), itemclient.IsTooLarge(err):
		return nil, refusal(ref.Name, values, err)
	case err != nil:
		return nil, fmt.Errorf("write export secret %q: %w", ref.Name, err)
	default:
		return ref, nil
	}
}

// goneOwner is the uid of no object.
const goneOwner = "00000000-0000-0000-0000-000000000000"

// Remove removes the exports of an item without exports, if the Secret in its status still belongs to it. The host has
// no right to delete Secrets: the values go at once, and the Secret gets an owner that does not exist, so that the
// garbage collector deletes it. verify is as in Write.
func (w *Writer) Remove(ctx context.Context, item *v1alpha1.DeployItem, verify func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	name := client.ObjectKey{Namespace: item.Namespace, Name: item.Status.ExportReference.Name}
	secret := &corev1.Secret{}
	err := w.api.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read export secret %q: %w", name.Name, err)
	}
	if !belongsTo(secret, item) {
		return nil
	}
	before := secret.DeepCopy()
	delete(secret.Data, key)
	own := slices.IndexFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == item.UID })
	switch {
	case own >= 0:
		secret.OwnerReferences[own].UID = goneOwner
	case len(secret.OwnerReferences) == 0:
		secret.OwnerReferences = ownedBy(item, goneOwner)
	}
	if err := verify(ctx); err != nil {
		return err
	}
	err = w.api.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the exports from secret %q: %w", name.Name, err)
	}
	return nil
}

func ownedBy(item *v1alpha1.DeployItem, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "DeployItem", Name: item.Name, UID: uid,
	}}
}

// The reasons of errors about exports: a Secret of another owner, and refusals of the API server.
const (
	reasonConflict    = "ExportSecretConflict"
	reasonTooLarge    = "ExportsTooLarge"
	reasonNameTooLong = "ExportNameTooLong"
	reasonRefused     = "ExportsRefused"
)

// refusal describes the refusal of a Secret by the API server.
func refusal(name string, values []byte, err error) contract.Error {
	reason, remedy := reasonRefused, ""
	switch {
	case len(name) > validation.DNS1123SubdomainMaxLength:
		reason, remedy = reasonNameTooLong, "; give the deploy item a shorter name"
	case len(values) > corev1.MaxSecretSize, itemclient.IsTooLarge(err):
		reason, remedy = reasonTooLarge, "; export less"
	}
	return contract.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "WriteExports", Reason: reason,
		Message: fmt.Sprintf("the API server refuses Secret %q with %d bytes of exports: %v%s",
			name, len(values), err, remedy),
	}
}

func (w *Writer) update(
	ctx context.Context, item *v1alpha1.DeployItem, name client.ObjectKey, values []byte,
	verify func(context.Context) error,
) error {
	secret := &corev1.Secret{}
	if err := w.api.Get(ctx, name, secret); err != nil {
		return err
	}
	if !belongsTo(secret, item) {
		return contract.Error{
			Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
			Operation: "WriteExports",
			Reason:    reasonConflict,
			Message: fmt.Sprintf("Secret %q exists and does not belong to this deploy item; its exports need this name: "+
				"rename or delete the secret", name.Name),
		}
	}
	before := secret.DeepCopy()
	if left := ownerOfThatName(secret, item); left != nil {
		left.UID = item.UID
	} else if bytes.Equal(secret.Data[key], values) {
		return nil
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[key] = values
	// The lock is verified after the read and before the conditional write: old values never replace those of the next
	// holder.
	if err := verify(ctx); err != nil {
		return err
	}
	return w.api.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// belongsTo reports whether a Secret is the item's: by its owner, by the item's status, or as a leftover of an earlier
// item of the same name.
func belongsTo(secret *corev1.Secret, item *v1alpha1.DeployItem) bool {
	for _, owner := range secret.OwnerReferences {
		if owner.UID == item.UID {
			return true
		}
	}
	ref := item.Status.ExportReference
	return ref != nil && ref.Name == secret.Name || ownerOfThatName(secret, item) != nil
}

// ownerOfThatName returns a Secret's reference to an earlier DeployItem of the same name; nil if there is none. The
// garbage collector deletes the Secret unless it gets its new owner.
func ownerOfThatName(secret *corev1.Secret, item *v1alpha1.DeployItem) *metav1.OwnerReference {
	for i, owner := range secret.OwnerReferences {
		if owner.APIVersion == v1alpha1.GroupVersion.String() && owner.Kind == "DeployItem" &&
			owner.Name == item.Name && owner.UID != item.UID {
			return &secret.OwnerReferences[i]
		}
	}
	return nil
}

func secretOf(item *v1alpha1.DeployItem, values []byte) *corev1.Secret {
	name := item.Name + "-export"
	if ref := item.Status.ExportReference; ref != nil && ref.Name != "" {
		name = ref.Name
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: item.Namespace, OwnerReferences: ownedBy(item, item.UID),
		},
		Data: map[string][]byte{key: values},
	}
}
