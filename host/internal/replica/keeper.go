package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// keeper keeps the own Lease.
type keeper struct {
	client    client.Client
	namespace string
	self      Self
	feed      *Feed
	clock     clock.Clock
	log       *slog.Logger

	// turn has one place, which is taken during a request; who waits for it can give up.
	turn  chan struct{}
	lease *coordinationv1.Lease
	// givenBack: the Lease is not renewed any more.
	givenBack atomic.Bool
}

func newKeeper(c client.Client, self Self, o Options, feed *Feed) *keeper {
	return &keeper{client: c, namespace: o.Namespace, self: self, feed: feed, clock: o.Clock, log: o.Log, turn: make(chan struct{}, 1)}
}

// giveBackTimeout bounds how long the end of a host may wait for its Lease to be given back.
const giveBackTimeout = 5 * time.Second

// take waits for the keeper's turn to make a request, until ctx ends.
func (k *keeper) take(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a request under way: %w", ctx.Err())
	}
}

func (k *keeper) pass() { <-k.turn }

// third is how often the Lease is renewed, and how long a request may take.
func (k *keeper) third() time.Duration { return k.self.LeaseDuration / 3 }

// takeOver makes the Lease that of this process, whoever had it.
func (k *keeper) takeOver(ctx context.Context) error {
	if err := k.take(ctx); err != nil {
		return err
	}
	defer k.pass()
	var began time.Time
	err := retry.OnError(retry.DefaultRetry, isRace, func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, k.third())
		defer cancel()
		if k.lease, err = k.read(ctx); err != nil {
			return err
		}
		k.lease.Spec.AcquireTime = nil
		began = k.clock.Now()
		return k.write(ctx, k.self.Process)
	})
	if err != nil {
		return fmt.Errorf("take over Lease: %w", err)
	}
	k.feed.Renewed(began)
	return nil
}

// keep renews the Lease until ctx ends, or until it is somebody else's: then it returns ErrReplaced.
func (k *keeper) keep(ctx context.Context) error {
	failing := false
	for {
		select {
		case <-k.feed.view.unsaid: // it is being said now
		default:
		}
		began := k.clock.Now()
		err := k.renew(ctx)
		pause := max(0, k.third()-k.clock.Since(began))
		switch {
		case errors.Is(err, ErrReplaced):
			return err
		case err != nil:
			pause = k.third() / 5
			if !failing && ctx.Err() == nil {
				k.log.Warn("Cannot renew the Lease of this replica; trying again", "lease", LeaseName(k.self.PodName), "error", err)
			}
		case failing:
			k.log.Info("The Lease of this replica is renewed again", "lease", LeaseName(k.self.PodName))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-k.feed.view.replaced:
			return ErrReplaced
		case <-k.feed.view.takenOver:
		case <-k.feed.view.unsaid:
		case <-k.clock.After(pause):
		}
	}
}

// renew renews the Lease once. It returns ErrReplaced if it is somebody else's.
func (k *keeper) renew(ctx context.Context) error {
	if err := k.take(ctx); err != nil {
		return err
	}
	defer k.pass()
	if k.givenBack.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.third())
	defer cancel()
	began := k.clock.Now()
	if err := k.insist(ctx, k.self.Process); err != nil {
		return fmt.Errorf("renew Lease: %w", err)
	}
	k.feed.Renewed(began)
	return nil
}

// giveBack leaves the Lease without a holder. It must not be renewed by anybody who counts on it then. It blocks for giveBackTimeout or
// a third of the Lease's duration, whichever is shorter: then the others have to wait for the Lease's expiry.
func (k *keeper) giveBack(ctx context.Context) error {
	k.givenBack.Store(true)
	ctx, cancel := context.WithTimeout(ctx, min(giveBackTimeout, k.third()))
	defer cancel()
	if err := k.take(ctx); err != nil {
		return fmt.Errorf("give Lease back: %w", err)
	}
	defer k.pass()
	if err := k.insist(ctx, ""); err != nil {
		return fmt.Errorf("give Lease back: %w", err)
	}
	return nil
}

// insist writes the Lease, a second time if something else has been written meanwhile but the Lease is still ours: an answer may have
// got lost, and others may change labels.
func (k *keeper) insist(ctx context.Context, holder string) error {
	err := k.write(ctx, holder)
	if !isRace(err) {
		return err
	}
	lease, err := k.read(ctx)
	if err != nil {
		return err
	}
	switch {
	case lease.ResourceVersion == "" && holder == "":
		return nil // there is nothing to give back
	case lease.ResourceVersion != "" && renewalOf(lease).holder != k.self.Process:
		k.feed.Replaced()
		return ErrReplaced
	}
	k.lease = lease
	return k.write(ctx, holder)
}

// read reads the Lease. If there is none it returns a new one, without a resourceVersion.
func (k *keeper) read(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := k.client.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: LeaseName(k.self.PodName)}, lease)
	if apierrors.IsNotFound(err) {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: LeaseName(k.self.PodName)}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Lease: %w", err)
	}
	return lease, nil
}

// write creates or updates the Lease, on the condition that it is still as it was read or written last.
func (k *keeper) write(ctx context.Context, holder string) error {
	next := k.lease.DeepCopy()
	k.fill(next, holder)
	var err error
	if next.ResourceVersion == "" {
		err = k.client.Create(ctx, next)
	} else {
		err = k.client.Update(ctx, next)
	}
	if err != nil {
		return fmt.Errorf("write Lease: %w", err)
	}
	k.lease = next
	return nil
}

func (k *keeper) fill(lease *coordinationv1.Lease, holder string) {
	metav1.SetMetaDataLabel(&lease.ObjectMeta, LabelReplica, "true")
	metav1.SetMetaDataLabel(&lease.ObjectMeta, LabelGroup, GroupLabel(k.self.Group))
	leaving, plugins := k.feed.view.toSay()
	delete(lease.Annotations, annotationLeaving)
	if leaving {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationLeaving, "true")
	}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, AnnotationPlugins, plugins)
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: k.self.PodName, UID: k.self.PodUID}}
	now := metav1.NewMicroTime(k.clock.Now())
	spec := &lease.Spec
	if spec.AcquireTime == nil {
		spec.AcquireTime = &now
		spec.LeaseTransitions = ptr.To(ptr.Deref(spec.LeaseTransitions, -1) + 1)
	}
	spec.HolderIdentity = &holder
	spec.RenewTime = &now
	// Rounding up makes the others wait longer, which is safe.
	spec.LeaseDurationSeconds = ptr.To(int32(min(math.Ceil(k.self.LeaseDuration.Seconds()), math.MaxInt32)))
}

// isRace tells that something else was written between the last look at the Lease and a write.
func isRace(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}
