package lock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/hostlease"
)

// noPodName is Landscaper's name of a deployer without a known pod. It always counts as alive, because there is no pod
// to look at.
const noPodName = "nopodname"

// holder is another pod with a Lease or a lock.
type holder struct {
	holderState
	// renewed is the time of the renewal by the clock of the pod, and seen by the clock of this replica (also for a pod
	// without a Lease); duration is the time from seen to the expiry of the Lease.
	renewed, seen time.Time
	duration      time.Duration
}

// holderState is the part of a holder whose changes the subscribers hear.
type holderState struct {
	// pod and lease report whether there is one.
	pod, lease bool
	expired    bool
	// process is the holder of the Lease; empty if it was released.
	process string
	// group is a value of hostlease.Label.
	group   string
	leaving bool
	// plugins is a value of annotationPlugins.
	plugins string
}

// dead reports whether a process of the pod is dead; process is empty for another implementation.
func (h holderState) dead(process string) bool {
	return !h.pod || process != "" && (h.expired || h.lease && h.process != process)
}

// next returns the holder with the current Lease; nil if there is none, as before its creation.
func (h holder) next(lease *coordinationv1.Lease, defaultDuration time.Duration) holder {
	before := h
	h.holderState = holderState{pod: before.pod}
	if h.duration == 0 {
		h.duration = defaultDuration
	}
	if lease != nil {
		h.lease, h.process = true, ptr.Deref(lease.Spec.HolderIdentity, "")
		h.group, h.plugins = lease.Labels[hostlease.Label], lease.Annotations[annotationPlugins]
		h.leaving = lease.Annotations[annotationLeaving] == "true"
		h.renewed = ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
		if seconds := ptr.Deref(lease.Spec.LeaseDurationSeconds, 0); seconds > 0 {
			h.duration = time.Duration(seconds) * time.Second
		}
	}
	if h.lease != before.lease || h.process != before.process || !h.renewed.Equal(before.renewed) || h.seen.IsZero() {
		h.seen = time.Now()
	}
	h.expired = time.Since(h.seen) >= h.duration
	return h
}

// follow keeps the other replicas and the validity of this one up to date until ctx ends.
func (r *Replicas) follow(ctx context.Context) {
	for ctx.Err() == nil {
		r.checkValidity()
		next := r.refresh(ctx)
		if valid := r.validFor(); valid > 0 {
			next = min(next, valid)
		}
		select {
		case <-ctx.Done():
		case <-r.look:
		case <-time.After(next):
		}
	}
}

// refresh reads Leases and Pods from the cache, and tells the subscribers about changes. It returns the time until the
// next expiry.
func (r *Replicas) refresh(ctx context.Context) (next time.Duration) {
	list := &coordinationv1.LeaseList{}
	if err := r.cache.List(ctx, list, client.InNamespace(r.options.Namespace)); err != nil {
		// The context has ended.
		return time.Second
	}
	r.mu.Lock()
	leases := map[string]*coordinationv1.Lease{}
	for i := range list.Items {
		if podName := list.Items[i].Name; podName != r.options.PodName {
			leases[podName] = &list.Items[i]
			if _, known := r.holders[podName]; !known {
				r.holders[podName] = holder{}
			}
		}
	}
	next, changed := r.options.LeaseDuration, false
	for podName, before := range r.holders {
		h := before.next(leases[podName], r.options.LeaseDuration)
		h.pod = r.podExists(ctx, podName)
		changed = changed || h.holderState != before.holderState
		r.holders[podName] = h
		if !h.expired {
			next = min(next, time.Until(h.seen.Add(h.duration)))
		}
		if !h.pod && !h.lease {
			delete(r.holders, podName)
		}
	}
	r.mu.Unlock()
	if changed {
		r.tell()
	}
	return next
}

func (r *Replicas) podExists(ctx context.Context, podName string) bool {
	return !apierrors.IsNotFound(r.cache.Get(ctx, r.key(podName), podMetadata()))
}

// SeemsDead reports whether a holder of locks is dead, as far as the watches have shown; process is empty for another
// implementation. See the package comment for the rules.
func (r *Replicas) SeemsDead(podName, process string) bool {
	switch podName {
	case noPodName:
		return false
	case r.options.PodName:
		// A pod's name is its own, so an earlier process under it is gone.
		return process != r.process
	}
	return r.holder(podName).dead(process)
}

// holder returns the holder of a lock. An existing pod without a Lease counts as alive for one LeaseDuration from now,
// so that it can create its Lease.
func (r *Replicas) holder(podName string) holder {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, known := r.holders[podName]
	if !known && r.podExists(context.Background(), podName) {
		h = holder{holderState: holderState{pod: true}}.next(nil, r.options.LeaseDuration)
		r.holders[podName] = h
		signal(r.look)
	}
	return h
}

// IsDead reports whether a holder of locks is dead, by reading its Pod and its Lease.
func (r *Replicas) IsDead(ctx context.Context, podName, process string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	h := r.holder(podName) //nolint:contextcheck // it is in memory
	pod, lease := &corev1.Pod{}, &coordinationv1.Lease{}
	err := r.client.Get(ctx, r.key(podName), pod)
	if h.pod = err == nil && !finished(pod); h.pod {
		err = r.client.Get(ctx, r.key(podName), lease)
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read pod and Lease: %w", err)
	}
	if err != nil {
		lease = nil
	}
	return h.next(lease, r.options.LeaseDuration).dead(process), nil
}

// alive returns the live replicas of the own group, this one included, in order of their names.
func (r *Replicas) alive() []Member {
	all := []Member{{PodName: r.options.PodName, Self: true, Leaving: r.leaving, Plugins: r.plugins}}
	for podName, h := range r.holders {
		if !h.dead(h.process) && h.process != "" && h.group == groupLabel(r.options.Group) {
			all = append(all, Member{
				PodName: podName, Leaving: h.leaving,
				Plugins: strings.FieldsFunc(h.plugins, func(c rune) bool { return c == ',' }),
			})
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.PodName, b.PodName) })
	return all
}
