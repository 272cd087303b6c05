package target

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// refusalKept is the pause after a refusal before Mark asks for the UID again.
const refusalKept = time.Minute

// Installation tells the deploy items of one cluster from those of others whose hosts share the cluster or the targets:
// by the UID of the namespace kube-system. Every cluster has it, and it stays. It may be used concurrently.
type Installation struct {
	reader client.Reader
	uid    atomic.Pointer[types.UID]

	mu      sync.Mutex
	refused time.Time // zero if it was not
}

// NewInstallation returns the Installation of the cluster of a reader of namespace metadata. It makes no request.
func NewInstallation(reader client.Reader) *Installation { return &Installation{reader: reader} }

// UID returns the mark of the cluster. It is read once; the error wraps the error of the reader, and is worth another
// try. UID blocks while it reads, until ctx ends at the latest.
func (i *Installation) UID(ctx context.Context) (string, error) {
	if uid := i.uid.Load(); uid != nil {
		return string(*uid), nil
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := i.reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace)
	if apierrors.IsForbidden(err) {
		return "", fmt.Errorf("the host may not read the namespace %s of the cluster with the deploy items; "+
			"allow \"get\" for it: %w", metav1.NamespaceSystem, err)
	}
	if err != nil {
		return "", fmt.Errorf("read the namespace %s of the cluster with the deploy items: %w", metav1.NamespaceSystem, err)
	}
	i.uid.Store(&namespace.UID)
	return string(namespace.UID), nil
}

// Mark returns the UID for optional use: it is empty if the cluster has no such namespace, or the host may not read it;
// the first refusal is logged. Any other error is that of UID: an installation that marks an object today must not fail
// to know its own tomorrow.
func (i *Installation) Mark(ctx context.Context, log *slog.Logger) (string, error) {
	if uid := i.uid.Load(); uid != nil {
		return string(*uid), nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Since(i.refused) < refusalKept {
		return "", nil
	}
	uid, err := i.UID(ctx)
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return uid, err
	}
	if i.refused.IsZero() {
		log.Warn("objects on targets do not get the mark of this installation, so that another control plane with the "+
			"same target cannot tell them from its own", "error", err)
	}
	i.refused = time.Now()
	return "", nil
}
