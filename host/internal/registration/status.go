package registration

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The conditions of a registration.
const (
	// ConditionReady: everything is as it should be. Otherwise its reason is that of the first problem, and its message has all.
	ConditionReady v1alpha1.ConditionType = "Ready"
	// ConditionHookResolved: the hook can be called. A registration without a hook does not have it.
	ConditionHookResolved v1alpha1.ConditionType = "HookResolved"
	// ConditionDeployersFound: each type is served by a plugin.
	ConditionDeployersFound v1alpha1.ConditionType = "DeployersFound"
)

// The reasons of conditions that are true.
const (
	ReasonReady          = "Ready"
	ReasonResolved       = "Resolved"
	ReasonDeployersFound = "DeployersFound"
)

// finding is what is known of a registration.
type finding struct {
	generation int64
	// hooked: there is a hook in the spec.
	hooked bool
	// hook is nil if there is none, or a problem with it.
	hook    *httphook.Hook
	problem *NotReadyError
	rivals  []rival
	// deployers are in the order of the types; missing are the types without one.
	deployers []v1alpha1.RegisteredDeployer
	missing   []v1alpha1.DeployItemType
}

// statusOf returns the status that follows from a finding and the status before. Conditions of others stay in it.
func statusOf(before v1alpha1.DeployerRegistrationStatus, f finding, now v1alpha1.Time) v1alpha1.DeployerRegistrationStatus {
	after := v1alpha1.DeployerRegistrationStatus{ObservedGeneration: f.generation, Conditions: slices.Clone(before.Conditions), Deployers: f.deployers}
	if f.hook != nil {
		after.Hook = &v1alpha1.HookStatus{URL: f.hook.URL()}
	}
	conditions := []v1alpha1.Condition{f.ready(), f.found()}
	if f.hooked {
		conditions = append(conditions, f.resolved())
	} else {
		after.Conditions = slices.DeleteFunc(after.Conditions, func(c v1alpha1.Condition) bool { return c.Type == ConditionHookResolved })
	}
	for _, c := range conditions {
		after.Conditions = set(after.Conditions, c, now)
	}
	return after
}

// set puts a condition into the place of the one of its type. Its times are those from before as far as nothing has changed since.
func set(conditions []v1alpha1.Condition, c v1alpha1.Condition, now v1alpha1.Time) []v1alpha1.Condition {
	c.LastTransitionTime, c.LastUpdateTime = now, now
	at := slices.IndexFunc(conditions, func(other v1alpha1.Condition) bool { return other.Type == c.Type })
	if at < 0 {
		return append(conditions, c)
	}
	before := conditions[at]
	if before.Status == c.Status {
		c.LastTransitionTime = before.LastTransitionTime
		if before.Reason == c.Reason && before.Message == c.Message {
			c.LastUpdateTime = before.LastUpdateTime
		}
	}
	c.Codes, c.Unknown = before.Codes, before.Unknown
	conditions[at] = c
	return conditions
}

// resolved is the condition HookResolved of a registration with a hook.
func (f finding) resolved() v1alpha1.Condition {
	if f.problem != nil {
		return v1alpha1.Condition{Type: ConditionHookResolved, Status: v1alpha1.ConditionFalse, Reason: f.problem.Reason, Message: f.problem.Message}
	}
	return v1alpha1.Condition{
		Type: ConditionHookResolved, Status: v1alpha1.ConditionTrue, Reason: ReasonResolved, Message: "the hook is called at " + f.hook.URL(),
	}
}

// found is the condition DeployersFound.
func (f finding) found() v1alpha1.Condition {
	c := v1alpha1.Condition{
		Type: ConditionDeployersFound, Status: v1alpha1.ConditionTrue, Reason: ReasonDeployersFound, Message: "each type is served by a plugin",
	}
	if len(f.missing) > 0 {
		c.Status, c.Reason = v1alpha1.ConditionFalse, ReasonNoDeployer
		c.Message = bounded("spec.types: no plugin of this host serves "+strings.Join(quotedTypes(f.missing), ", "), maxMessage)
	}
	return c
}

// ready is the condition that sums the others up.
func (f finding) ready() v1alpha1.Condition {
	c := v1alpha1.Condition{Type: ConditionReady, Status: v1alpha1.ConditionTrue, Reason: ReasonReady, Message: "everything is as it should be"}
	var reasons, messages []string
	note := func(reason, message string) {
		reasons, messages = append(reasons, reason), append(messages, message)
	}
	if f.problem != nil && f.problem.Reason == ReasonInvalid {
		note(f.problem.Reason, f.problem.Message)
	}
	for _, taken := range f.rivals {
		note(ReasonTypeTaken, fmt.Sprintf("spec.types: the hook of the older DeployerRegistration %q is in force for %q; take the type out of one of them", taken.owner, taken.itemType))
	}
	if f.problem != nil && f.problem.Reason != ReasonInvalid {
		note(f.problem.Reason, f.problem.Message)
	}
	if found := f.found(); found.Status == v1alpha1.ConditionFalse {
		note(found.Reason, found.Message)
	}
	if len(reasons) > 0 {
		c.Status, c.Reason, c.Message = v1alpha1.ConditionFalse, reasons[0], bounded(strings.Join(messages, "; "), maxMessage)
	}
	return c
}

func quotedTypes(types []v1alpha1.DeployItemType) []string {
	var quoted []string
	for _, t := range types {
		quoted = append(quoted, fmt.Sprintf("%q", t))
	}
	return quoted
}

// equalStatus tells whether nothing needs to be written.
func equalStatus(a, b v1alpha1.DeployerRegistrationStatus) bool {
	return reflect.DeepEqual(a, b)
}

// condition returns the condition of a type; the zero Condition if there is none.
func condition(status v1alpha1.DeployerRegistrationStatus, conditionType v1alpha1.ConditionType) v1alpha1.Condition {
	for _, c := range status.Conditions {
		if c.Type == conditionType {
			return c
		}
	}
	return v1alpha1.Condition{}
}
