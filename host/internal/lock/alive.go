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
)

// noPodName is how Landscaper calls a deployer that does not know its pod. It is always alive: nothing can be found
// out about it.
const noPodName = "nopodname"

// holder is what is known of another pod that has a Lease, or holds a lock.
type holder struct {
	holderState
	// renewed is when the Lease was renewed, as the pod says, whose clock may show any time; seen is when this replica
	// saw it, or that there is no Lease; duration is how long the Lease holds after that.
	renewed, seen time.Time
	duration      time.Duration
}

// holderState is that part of a holder whose change is told to the subscribers.
type holderState struct {
	pod, lease bool // whether there is one
	expired    bool
	process    string // that has the Lease; empty if it was given back
	group      string // as groupLabel writes it
	leaving    bool
	plugins    string // separated by commas
}

// dead reports whether a process of the pod is dead; it is empty for one of another implementation.
func (h holderState) dead(process string) bool {
	return !h.pod || process != "" && (h.expired || h.lease && h.process != process)
}

// next is what is known of a holder whose Lease is this one now; nil if there is none, as when it is about to make it.
func (h holder) next(lease *coordinationv1.Lease, defaultDuration time.Duration) holder {
	before := h
	h.holderState = holderState{pod: before.pod}
	if h.duration == 0 {
		h.duration = defaultDuration
	}
	if lease != nil {
		h.lease, h.process = true, ptr.Deref(lease.Spec.HolderIdentity, "")
		h.group, h.plugins = lease.Labels[labelGroup], lease.Annotations[annotationPlugins]
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

// follow keeps up to date what is known of the others, and whether this replica is valid, until ctx ends.
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

// refresh takes note of what the cache has, and tells the subscribers if that is new. It returns when something may
// expire.
func (r *Replicas) refresh(ctx context.Context) (next time.Duration) {
	list := &coordinationv1.LeaseList{}
	if err := r.cache.List(ctx, list, client.InNamespace(r.options.Namespace)); err != nil {
		return time.Second // ctx has ended
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

// SeemsDead tells from what the watches have shown whether a holder of locks is dead; process is empty if it is of
// another implementation. See the package comment for the rules.
func (r *Replicas) SeemsDead(podName, process string) bool {
	switch podName {
	case noPodName:
		return false
	case r.options.PodName:
		return process != r.process // a pod's name is its own, so who has used it before is gone
	}
	return r.holder(podName).dead(process)
}

// holder returns what is known of a pod that holds a lock. If nothing is known of a pod that exists, it counts as alive
// for one LeaseDuration from now, so that it can create its Lease.
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

// IsDead reports whether a holder of locks that seems to be dead is so, by reading its Pod and its Lease.
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

// alive are the replicas of the own group that are alive, this one included, in order of their names.
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
