package httphook

import (
	"cmp"
	"context"
	"errors"
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
	// conditionReady: the hook can be called, and the last calls did not all fail. Otherwise its reason is that of the
	// first problem, and its message has all.
	conditionReady v1alpha1.ConditionType = "Ready"
	// conditionHookResolved: the hook can be called. A registration without a hook does not have it.
	conditionHookResolved v1alpha1.ConditionType = "HookResolved"
	// conditionDeployersFound: each type is served by a plugin.
	conditionDeployersFound v1alpha1.ConditionType = "DeployersFound"
)

// The reasons of conditions with status True.
const (
	reasonReady          = "Ready"
	reasonResolved       = "Resolved"
	reasonDeployersFound = "DeployersFound"
)

const (
	// eventAction is the action of a host for a registration.
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
	after.Status = r.status(registration, v1alpha1.Now())
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

// status returns the wanted status of a registration. Conditions of others stay in it.
func (r *Registrations) status(
	registration *v1alpha1.DeployerRegistration, now v1alpha1.Time,
) v1alpha1.DeployerRegistrationStatus {
	status := v1alpha1.DeployerRegistrationStatus{
		ObservedGeneration: registration.Generation, Conditions: slices.Clone(registration.Status.Conditions),
	}
	set := func(t v1alpha1.ConditionType, reason, message string, wrong faults) {
		c := v1alpha1.Condition{Type: t, Status: v1alpha1.ConditionTrue, Reason: reason, Message: message}
		if len(wrong) > 0 {
			c.Status, c.Reason, c.Message = v1alpha1.ConditionFalse, wrong[0].reason, wrong.String()
		}
		setCondition(&status, c, now)
	}
	types := slices.Sorted(slices.Values(registration.Spec.Types))
	current := r.state.Load()
	own := cmp.Or(current.entries[registration.Name], &entry{})
	var taken, missing faults
	for _, t := range types {
		if owner := current.owners[t]; own.name != "" && owner != nil && owner != own {
			taken.add(reasonTypeTaken, "spec.types: ", fmt.Errorf("the hook of the older DeployerRegistration %q "+
				"is in force for %q; take the type out of one of them", owner.name, t))
		}
	}
	status.Deployers, missing = r.deployers(types)
	var failing faults
	if own.hook != nil {
		if failed := own.hook.calls.verdict(); failed != nil {
			failing.add(string(failed.Reason), "", errors.New("its calls fail, and the jobs wait for it: "+failed.Error()))
		}
	}
	set(conditionReady, reasonReady, "everything is as it should be",
		slices.Concat(taken, own.faults, failing, missing))
	set(conditionDeployersFound, reasonDeployersFound, "each type is served by a plugin", missing)
	switch {
	case own.hook != nil:
		status.Hook = &v1alpha1.HookStatus{URL: own.hook.URL()}
		set(conditionHookResolved, reasonResolved, "the hook is called at "+own.hook.URL(), nil)
	case len(own.faults) > 0:
		set(conditionHookResolved, "", "", own.faults)
	default:
		status.Conditions = slices.DeleteFunc(status.Conditions, func(c v1alpha1.Condition) bool {
			return c.Type == conditionHookResolved
		})
	}
	return status
}

// deployers returns the plugins of types, in the order of the types, and the types without a plugin.
func (r *Registrations) deployers(
	types []v1alpha1.DeployItemType,
) (found []v1alpha1.RegisteredDeployer, missing faults) {
	var names []string
	for _, t := range types {
		plugin, version, replicas, ok := r.options.Deployers(t)
		if !ok {
			names = append(names, strconv.Quote(string(t)))
			continue
		}
		found = append(found, v1alpha1.RegisteredDeployer{
			Type: t, Plugin: plugin, Version: version,
			Replicas: int32(min(replicas, math.MaxInt32)), //nolint:gosec // bounded
		})
	}
	if len(names) > 0 {
		missing.add(reasonNoDeployer, "spec.types: ", errors.New("no plugin of this host serves "+strings.Join(names, ", ")))
	}
	return found, missing
}

// setCondition replaces the condition of a type. Its times stay as far as nothing has changed since.
func setCondition(status *v1alpha1.DeployerRegistrationStatus, c v1alpha1.Condition, now v1alpha1.Time) {
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
