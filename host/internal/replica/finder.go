package replica

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// firstRetry is the pause after the first read that failed or settled nothing; it doubles up to the duration of a Lease.
const firstRetry = 100 * time.Millisecond

// finder answers what a Feed asks, by reading pods and Leases themselves. Each pod has one place in its queue, at the latest when its
// Lease may expire.
type finder struct {
	client    client.Reader
	namespace string
	self      Self
	feed      *Feed
	queue     workqueue.TypedRateLimitingInterface[string]
	log       *slog.Logger
}

func newQueue(longest time.Duration, clock clock.WithTicker) workqueue.TypedRateLimitingInterface[string] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, longest),
		workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock},
	)
}

// run works until the queue is shut down.
func (f *finder) run(ctx context.Context) {
	for {
		podName, shutDown := f.queue.Get()
		if shutDown {
			return
		}
		f.settle(ctx, podName)
		f.queue.Done(podName)
	}
}

// settle finds out what there is to be found out about a pod, and sees to it that it is looked at again in time.
func (f *finder) settle(ctx context.Context, podName string) {
	question, wait := f.feed.Next(podName)
	if question != Nothing {
		if err := f.find(ctx, podName, question); err != nil && ctx.Err() == nil {
			f.log.Warn("Cannot find out whether a replica is dead; it counts as alive until then", "pod", podName, "error", err)
		}
		question, wait = f.feed.Next(podName)
	}
	if question != Nothing {
		f.queue.AddRateLimited(podName)
		return
	}
	f.queue.Forget(podName)
	if wait > 0 {
		f.queue.AddAfter(podName, wait)
	}
}

func (f *finder) find(ctx context.Context, podName string, question Question) error {
	ctx, cancel := context.WithTimeout(ctx, f.self.LeaseDuration/3)
	defer cancel()
	if question == AskPod {
		return f.findPod(ctx, podName)
	}
	return f.findLease(ctx, podName)
}

func (f *finder) findPod(ctx context.Context, podName string) error {
	pod := &corev1.Pod{}
	err := f.client.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: podName}, pod)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read pod: %w", err)
	}
	another := podName == f.self.PodName && pod.UID != f.self.PodUID
	if err != nil || finished(pod) || another {
		f.feed.PodGone(podName)
	}
	return nil
}

func (f *finder) findLease(ctx context.Context, podName string) error {
	lease := &coordinationv1.Lease{}
	err := f.client.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: LeaseName(podName)}, lease)
	switch {
	case apierrors.IsNotFound(err):
		f.feed.LeaseGone(podName, "")
	case err != nil:
		return fmt.Errorf("read Lease: %w", err)
	default:
		f.feed.LeaseSeen(lease, true)
	}
	return nil
}
