package httphook

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The conditions of a registration.
const (
	// conditionReady: everything is as it should be. Otherwise its reason is that of the first problem, and its message
	// has all.
	conditionReady v1alpha1.ConditionType = "Ready"
	// conditionHookResolved: the hook can be called. A registration without a hook does not have it.
	conditionHookResolved v1alpha1.ConditionType = "HookResolved"
	// conditionDeployersFound: each type is served by a plugin.
	conditionDeployersFound v1alpha1.ConditionType = "DeployersFound"
)

// The reasons of conditions that are true.
const (
	reasonReady          = "Ready"
	reasonResolved       = "Resolved"
	reasonDeployersFound = "DeployersFound"
)

const (
	// eventAction is what a host does for a registration.
	eventAction = "PrepareHook"
	// maxNote bounds the note of an event, in bytes. The API server takes 1024.
	maxNote = 1000
)

// report writes the status of a registration if it is not as it should be. Another write in the meantime makes it fail.
func (r *Registrations) report(ctx context.Context, registration *v1alpha1.DeployerRegistration) error {
	if !r.options.Elected() {
		return nil
	}
	after := registration.DeepCopy()
	after.Status = r.find(registration).status(v1alpha1.Now())
	if reflect.DeepEqual(after.Status, registration.Status) {
		return nil
	}
	ready, before := conditionOf(&after.Status, conditionReady), conditionOf(&registration.Status, conditionReady)
	patch := client.MergeFromWithOptions(registration, client.MergeFromWithOptimisticLock{})
	if err := r.cluster.Status().Patch(ctx, after, patch); err != nil {
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			r.options.Log.Warn("the status of a DeployerRegistration was not written; it is tried again",
				"registration", registration.Name, "error", err.Error())
		}
		return fmt.Errorf("write status: %w", err)
	}
	if ready.Status == v1alpha1.ConditionFalse && (before == nil || ready.LastUpdateTime != before.LastUpdateTime) {
		note := clean(ready.Message, maxNote)
		r.recorder.Eventf(after, nil, corev1.EventTypeWarning, ready.Reason, eventAction, "%s", note)
	}
	return nil
}

// finding is what is known of a registration.
type finding struct {
	registration *v1alpha1.DeployerRegistration
	hook         *Hook
	problem      *NotReadyError
	// taken are the types that older registrations have.
	taken faults
	// deployers are in the order of the types; missing are the types without one.
	deployers []v1alpha1.RegisteredDeployer
	missing   []string
}

func (r *Registrations) find(registration *v1alpha1.DeployerRegistration) finding {
	f := finding{registration: registration}
	types := slices.Sorted(slices.Values(registration.Spec.Types))
	for _, t := range types {
		plugin, version, replicas, ok := r.options.Deployers(t)
		if !ok {
			f.missing = append(f.missing, strconv.Quote(string(t)))
			continue
		}
		f.deployers = append(f.deployers, v1alpha1.RegisteredDeployer{
			Type: t, Plugin: plugin, Version: version,
			Replicas: int32(min(replicas, math.MaxInt32)), //nolint:gosec // bounded
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.entries[registration.Name]
	if own == nil {
		return f
	}
	f.hook, f.problem = own.hook, own.problem
	for _, t := range types {
		if owner := r.owner(t); owner != nil && owner != own {
			f.taken.add(reasonTypeTaken, "spec.types: ", fmt.Errorf("the hook of the older DeployerRegistration %q "+
				"is in force for %q; take the type out of one of them", owner.registration.Name, t))
		}
	}
	return f
}

// status returns the status that follows. Conditions of others stay in it.
func (f finding) status(now v1alpha1.Time) v1alpha1.DeployerRegistrationStatus {
	isTrue := func(t v1alpha1.ConditionType, reason, message string) v1alpha1.Condition {
		return v1alpha1.Condition{Type: t, Status: v1alpha1.ConditionTrue, Reason: reason, Message: message}
	}
	ready := isTrue(conditionReady, reasonReady, "everything is as it should be")
	resolved := isTrue(conditionHookResolved, reasonResolved, "")
	found := isTrue(conditionDeployersFound, reasonDeployersFound, "each type is served by a plugin")
	status := v1alpha1.DeployerRegistrationStatus{
		ObservedGeneration: f.registration.Generation, Deployers: f.deployers,
		Conditions: slices.Clone(f.registration.Status.Conditions),
	}
	wrong := slices.Clone(f.taken)
	if f.hook != nil {
		status.Hook = &v1alpha1.HookStatus{URL: f.hook.URL()}
		resolved.Message = "the hook is called at " + f.hook.URL()
	}
	if f.problem != nil {
		resolved.Status = v1alpha1.ConditionFalse
		resolved.Reason, resolved.Message = f.problem.Reason, f.problem.Message
		wrong = append(wrong, fault{reason: f.problem.Reason, message: f.problem.Message})
	}
	if len(f.missing) > 0 {
		found.Status, found.Reason = v1alpha1.ConditionFalse, reasonNoDeployer
		found.Message = clean("spec.types: no plugin of this host serves "+strings.Join(f.missing, ", "), maxStatus)
		wrong = append(wrong, fault{reason: found.Reason, message: found.Message})
	}
	if len(wrong) > 0 {
		ready.Status, ready.Reason, ready.Message = v1alpha1.ConditionFalse, wrong[0].reason, wrong.String()
	}
	set(&status, ready, now)
	set(&status, found, now)
	if f.hook == nil && f.problem == nil {
		status.Conditions = slices.DeleteFunc(status.Conditions, func(c v1alpha1.Condition) bool {
			return c.Type == conditionHookResolved
		})
	} else {
		set(&status, resolved, now)
	}
	return status
}

// set puts a condition into the place of the one of its type. Its times are those from before as far as nothing has
// changed since.
func set(status *v1alpha1.DeployerRegistrationStatus, c v1alpha1.Condition, now v1alpha1.Time) {
	c.LastTransitionTime, c.LastUpdateTime = now, now
	before := conditionOf(status, c.Type)
	if before == nil {
		status.Conditions = append(status.Conditions, c)
		return
	}
	if before.Status == c.Status {
		c.LastTransitionTime = before.LastTransitionTime
		if before.Reason == c.Reason && before.Message == c.Message {
			c.LastUpdateTime = before.LastUpdateTime
		}
	}
	*before = c
}

// conditionOf returns the condition of a type; nil if there is none.
func conditionOf(status *v1alpha1.DeployerRegistrationStatus, t v1alpha1.ConditionType) *v1alpha1.Condition {
	at := slices.IndexFunc(status.Conditions, func(c v1alpha1.Condition) bool { return c.Type == t })
	if at < 0 {
		return nil
	}
	return &status.Conditions[at]
}
