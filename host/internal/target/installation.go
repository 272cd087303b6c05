package target

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Installation tells the deploy items of one cluster from those of others whose hosts run in the same cluster: by the UID of the namespace
// kube-system, which every cluster has, and which stays. It may be used concurrently.
type Installation struct {
	reader client.Reader
	uid    shared[string]
}

// NewInstallation returns that of the cluster that a reader reads, which is asked for the metadata of a namespace. It makes no request.
func NewInstallation(reader client.Reader) *Installation { return &Installation{reader: reader} }

// UID returns what tells the cluster from others. It is read once; the error wraps that of the reader, and is worth another try. UID blocks
// while it reads, until ctx ends at the latest.
func (i *Installation) UID(ctx context.Context) (string, error) {
	uid, err := i.uid.get(ctx, func(*string) bool { return true }, i.read)
	if err != nil {
		return "", err
	}
	return *uid, nil
}

func (i *Installation) read(ctx context.Context) (*string, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := i.reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace)
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("the host may not read the namespace %s of the cluster with the deploy items; allow \"get\" for it: %w", metav1.NamespaceSystem, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the namespace %s of the cluster with the deploy items: %w", metav1.NamespaceSystem, err)
	}
	uid := string(namespace.UID)
	return &uid, nil
}
