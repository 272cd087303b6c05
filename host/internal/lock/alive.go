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
	state holderState
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

// follow keeps up to date what is known of the others, until ctx ends.
func (r *Replicas) follow(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.look:
		case <-time.After(r.refresh(ctx)):
		}
	}
}

// refresh takes note of what the cache has, and tells the subscribers if that is new. It returns when something may
// expire.
func (r *Replicas) refresh(ctx context.Context) (next time.Duration) {
	leases := &coordinationv1.LeaseList{}
	if err := r.cache.List(ctx, leases, client.InNamespace(r.options.Namespace)); err != nil {
		return time.Second // ctx has ended
	}
	r.mu.Lock()
	holders := map[string]holder{}
	for podName, h := range r.holders { // whose Lease is missing may be about to make it
		h.state.lease = false
		holders[podName] = h
	}
	for i := range leases.Items {
		if podName := leases.Items[i].Name; podName != r.options.PodName {
			holders[podName] = r.holderOf(&leases.Items[i], r.holders[podName])
		}
	}
	next, changed := r.options.LeaseDuration, false
	for podName, h := range holders {
		left := time.Until(h.seen.Add(h.duration))
		h.state.pod, h.state.expired = r.podExists(ctx, podName), left <= 0
		if !h.state.expired {
			next = min(next, left)
		}
		changed = changed || h.state != r.holders[podName].state
		holders[podName] = h
		if !h.state.pod && !h.state.lease {
			delete(holders, podName)
		}
	}
	r.holders = holders
	r.mu.Unlock()
	if changed {
		r.tell()
	}
	return next
}

// holderOf is what a Lease says. before is what was known of it before.
func (r *Replicas) holderOf(lease *coordinationv1.Lease, before holder) holder {
	h := holder{
		state: holderState{
			lease: true, process: ptr.Deref(lease.Spec.HolderIdentity, ""), group: lease.Labels[labelGroup],
			leaving: lease.Annotations[annotationLeaving] == "true", plugins: lease.Annotations[annotationPlugins],
		},
		renewed:  ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time,
		seen:     before.seen,
		duration: time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second,
	}
	if h.duration <= 0 {
		h.duration = r.options.LeaseDuration
	}
	if h.state.process != before.state.process || !h.renewed.Equal(before.renewed) || before.seen.IsZero() {
		h.seen = time.Now()
	}
	return h
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
	h := r.holder(podName)
	return !h.state.pod || process != "" && (h.state.expired || h.state.lease && h.state.process != process)
}

// holder returns what is known of a pod that holds a lock. If that is nothing, it has the time from now on to make a
// Lease.
func (r *Replicas) holder(podName string) holder {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, known := r.holders[podName]
	if !known && r.podExists(context.Background(), podName) {
		h = holder{state: holderState{pod: true}, seen: time.Now(), duration: r.options.LeaseDuration}
		r.holders[podName] = h
		signal(r.look)
	}
	return h
}

// IsDead tells whether a holder of locks that seems to be dead is so, by reading its Pod and its Lease.
func (r *Replicas) IsDead(ctx context.Context, podName, process string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	known := r.holder(podName) //nolint:contextcheck // it is in memory
	pod, lease := &corev1.Pod{}, &coordinationv1.Lease{}
	err := r.client.Get(ctx, r.key(podName), pod)
	if apierrors.IsNotFound(err) || err == nil && finished(pod) {
		return true, nil
	}
	if err == nil {
		err = r.client.Get(ctx, r.key(podName), lease)
	}
	switch {
	case apierrors.IsNotFound(err):
		return process != "" && !known.state.lease && known.state.expired, nil
	case err != nil:
		return false, fmt.Errorf("read pod and Lease: %w", err)
	}
	now := r.holderOf(lease, known)
	return process != "" && (now.state.process != process || known.state.expired && now.seen.Equal(known.seen)), nil
}

// alive are the replicas of the own group that are alive, this one included, in order of their names.
func (r *Replicas) alive() []Member {
	all := []Member{{PodName: r.options.PodName, Self: true, Leaving: r.leaving, Plugins: r.plugins}}
	for podName, h := range r.holders {
		s := h.state
		if s.pod && s.lease && !s.expired && s.process != "" && s.group == groupLabel(r.options.Group) {
			all = append(all, Member{
				PodName: podName, Leaving: s.leaving,
				Plugins: strings.FieldsFunc(s.plugins, func(c rune) bool { return c == ',' }),
			})
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.PodName, b.PodName) })
	return all
}
