package registration

import (
	"context"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// eventAction is what a host does for a registration.
	eventAction = "PrepareHook"
	// maxNote is how many bytes the API server takes as the note of an event.
	maxNote = 1024
)

// report writes the statuses that are not as they should be, and tells whether it could.
func (r *Registry) report(ctx context.Context, registrations []v1alpha1.DeployerRegistration, settled claims) bool {
	written := true
	for i := range registrations {
		registration := &registrations[i]
		f := r.finding(registration, settled)
		if equalStatus(registration.Status, statusOf(registration.Status, f, v1alpha1.NewTime(r.options.Clock.Now()))) {
			continue
		}
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return r.write(ctx, registration, f) })
		if err != nil && ctx.Err() == nil {
			r.options.Log.Warn("the status of a DeployerRegistration was not written; it is tried again", "registration", registration.Name, "error", err.Error())
			written = false
		}
	}
	return written
}

// finding is what is known of a registration.
func (r *Registry) finding(registration *v1alpha1.DeployerRegistration, settled claims) finding {
	f := finding{generation: registration.Generation, hooked: registration.Spec.Hook != nil, rivals: settled.rivals(registration)}
	if b := r.bindings[registration.Name]; b != nil {
		f.hook, f.problem = b.hook, b.problem
	} else {
		f.problem = invalid(registration)
	}
	for _, t := range slices.Sorted(slices.Values(registration.Spec.Types)) {
		plugin, version, replicas, ok := r.options.Deployers(t)
		if !ok {
			f.missing = append(f.missing, t)
			continue
		}
		f.deployers = append(f.deployers, v1alpha1.RegisteredDeployer{
			Type: t, Plugin: plugin, Version: version, Replicas: int32(min(replicas, math.MaxInt32)), //nolint:gosec // bounded
		})
	}
	return f
}

// write writes the status of a registration unless it is as it should be, or the registration is not the one that was looked at any more.
// The error may be a conflict.
func (r *Registry) write(ctx context.Context, lookedAt *v1alpha1.DeployerRegistration, f finding) error {
	live := &v1alpha1.DeployerRegistration{}
	if err := r.options.Client.Get(ctx, client.ObjectKeyFromObject(lookedAt), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if live.UID != lookedAt.UID || live.Generation != lookedAt.Generation {
		return nil // there is another look at it soon
	}
	before := live.DeepCopy()
	live.Status = statusOf(live.Status, f, v1alpha1.NewTime(r.options.Clock.Now()))
	if equalStatus(before.Status, live.Status) {
		return nil
	}
	ready := condition(live.Status, ConditionReady)
	err := r.options.Client.Status().Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	was := condition(before.Status, ConditionReady)
	if ready.Status == v1alpha1.ConditionFalse && (was.Status != ready.Status || was.Reason != ready.Reason || was.Message != ready.Message) {
		r.options.Recorder.Eventf(live, nil, corev1.EventTypeWarning, ready.Reason, eventAction, "%s", bounded(ready.Message, maxNote))
	}
	return nil
}
