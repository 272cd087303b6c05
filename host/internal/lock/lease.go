package lock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/pergola-deploy/pergola/host/internal/hostlease"
)

const (
	// labelReplica is "true" on the Leases of replicas.
	labelReplica = "host.pergola.dev/replica"
	// annotationPlugins has the names of the served plugins, sorted and separated by commas.
	annotationPlugins = "host.pergola.dev/plugins"
	// annotationLeaving is "true" on the Lease of a replica without new work.
	annotationLeaving = "host.pergola.dev/leaving"

	// releaseTimeout bounds the release of the Lease when the host stops.
	releaseTimeout = 5 * time.Second
)

// groupLabel is the value of hostlease.Label for a group: a digest, as a group may be any string and a label value may
// not.
func groupLabel(group string) string {
	sum := sha256.Sum256([]byte(group))
	return hex.EncodeToString(sum[:8])
}

// third is the interval of renewals, and the timeout of each.
func (r *Replicas) third() time.Duration { return r.options.LeaseDuration / 3 }

// takeLease makes this process the holder of the pod's Lease, without regard to an earlier holder.
func (r *Replicas) takeLease(ctx context.Context) error {
	name, namespace := r.options.PodName, r.options.Namespace
	pod := &corev1.Pod{}
	err := r.client.Get(ctx, r.key(name), pod)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no pod %q in namespace %q for this host: set MY_POD_NAME and "+
			"MY_POD_NAMESPACE by the downward API, or name the pods' cluster with --host-kubeconfig: %w", name, namespace, err)
	case err != nil:
		return fmt.Errorf("read own pod %q in namespace %q: %w", name, namespace, err)
	case finished(pod):
		return fmt.Errorf("the pod %q in namespace %q of this host is finished (phase %s)",
			name, namespace, pod.Status.Phase)
	}
	owners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: pod.UID}}
	began := time.Now()
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		began = time.Now()
		return r.writeLease(ctx, r.process, func(lease *coordinationv1.Lease) error {
			lease.OwnerReferences = owners
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("take over Lease: %w", err)
	}
	r.renewed(began)
	return nil
}

// finished reports whether a pod has ended for good.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// keepLease renews the Lease until ctx ends. It returns ErrReplaced when another process has the Lease, or it is gone.
func (r *Replicas) keepLease(ctx context.Context) error {
	failing := false
	for ctx.Err() == nil {
		began := time.Now()
		err := r.renewLease(ctx, r.process, r.third())
		pause := r.third() - time.Since(began)
		switch {
		case errors.Is(err, ErrReplaced):
			return err
		case err == nil:
			r.renewed(began)
			if failing {
				r.options.Log.Info("renewed the Lease of this replica again", "lease", r.options.PodName)
			}
		default:
			pause = r.third() / 5
			if !failing && ctx.Err() == nil {
				r.options.Log.Warn("cannot renew the Lease of this replica; trying again",
					"lease", r.options.PodName, "error", err.Error())
			}
		}
		failing = err != nil
		select {
		case <-ctx.Done():
		case <-r.renewNow:
		case <-time.After(pause):
		}
	}
	return nil
}

// checkValidity tells the subscribers about the end of the validity of this replica.
func (r *Replicas) checkValidity() {
	r.mu.Lock()
	over := !r.lapsed && !r.valid()
	r.lapsed = r.lapsed || over
	r.mu.Unlock()
	if over {
		r.tell()
	}
}

// renewed extends the validity of this replica; began is the time before the request for the renewal.
func (r *Replicas) renewed(began time.Time) {
	r.checkValidity()
	r.mu.Lock()
	r.validUntil = began.Add(r.options.LeaseDuration * 2 / 3)
	back := r.lapsed && time.Now().Before(r.validUntil)
	if back {
		r.lapsed = false
		// A replica that could not renew its own Lease could not see other renewals either.
		for podName, h := range r.holders {
			h.seen, h.expired = time.Now(), false
			r.holders[podName] = h
		}
	}
	r.mu.Unlock()
	if back {
		r.tell()
		signal(r.look)
	}
}

// renewLease writes a holder to the Lease, this process or none. It returns ErrReplaced when another process has the
// Lease, or it is gone.
func (r *Replicas) renewLease(ctx context.Context, holder string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return r.writeLease(ctx, holder, func(lease *coordinationv1.Lease) error {
		if ptr.Deref(lease.Spec.HolderIdentity, "") != r.process {
			return ErrReplaced
		}
		return nil
	})
}

// releaseLease leaves the Lease without a holder.
func (r *Replicas) releaseLease(ctx context.Context) error {
	return r.renewLease(context.WithoutCancel(ctx), "", min(releaseTimeout, r.third()))
}

// writeLease writes a holder to the Lease, unless change returns an error for the current one.
func (r *Replicas) writeLease(
	ctx context.Context, holder string, change func(*coordinationv1.Lease) error,
) error {
	key := r.key(r.options.PodName)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.client, lease, func() error {
		if err := change(lease); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		metav1.SetMetaDataLabel(&lease.ObjectMeta, labelReplica, "true")
		metav1.SetMetaDataLabel(&lease.ObjectMeta, hostlease.Label, groupLabel(r.options.Group))
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationPlugins, strings.Join(r.plugins, ","))
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationLeaving, fmt.Sprint(r.leaving))
		hostlease.NoteNamespaces(lease, r.options.Namespaces)
		lease.Spec.HolderIdentity = &holder
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		// Rounding up makes the others wait longer, which is safe.
		lease.Spec.LeaseDurationSeconds = ptr.To(int32(min(math.Ceil(r.options.LeaseDuration.Seconds()), math.MaxInt32)))
		return nil
	})
	return err
}
