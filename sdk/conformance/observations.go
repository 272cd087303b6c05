package conformance

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// observations are what one call showed of the rules about what a plugin says.
type observations struct {
	checked []Rule
	broken  []Violation
}

func (o *observations) pass(rule Rule) { o.checked = append(o.checked, rule) }

func (o *observations) breaks(rule Rule, format string, args ...any) {
	if len(o.broken) < maxMessages {
		o.broken = append(o.broken, Violation{Rule: rule, Message: fmt.Sprintf(format, args...)})
	}
}

// checkStatus checks the document of a provider status.
func (o *observations) checkStatus(document []byte) {
	o.pass(RuleStatusKind)
	var meta struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(document, &meta); err != nil {
		o.breaks(RuleStatusKind, "the provider status is not a JSON object: %v", err)
		return
	}
	if meta.APIVersion == "" || meta.Kind == "" {
		o.breaks(RuleStatusKind, "the provider status has apiVersion %q and kind %q; it needs both", meta.APIVersion, meta.Kind)
	}
}

const (
	// maxConditions is how many conditions the host takes of one result.
	maxConditions = 8
	// maxReason bounds the reason of a condition, as the host does.
	maxReason = 256
)

var (
	conditionType   = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
)

// checkConditions checks the conditions of a result.
func (o *observations) checkConditions(conditions []sdk.Condition) {
	if len(conditions) == 0 {
		return
	}
	o.pass(RuleConditions)
	if len(conditions) > maxConditions {
		o.breaks(RuleConditions, "there are %d conditions; at most %d count", len(conditions), maxConditions)
	}
	known := []v1alpha1.ConditionStatus{v1alpha1.ConditionTrue, v1alpha1.ConditionFalse, v1alpha1.ConditionUnknown}
	for i, c := range conditions {
		name := quoted(string(c.Type))
		if !conditionType.MatchString(string(c.Type)) {
			o.breaks(RuleConditions, "the type %s is not in CamelCase, with at most 63 letters and digits", name)
		}
		if slices.Contains(sdk.HostConditions(), c.Type) {
			o.breaks(RuleConditions, "the condition %s is the host's own", name)
		}
		if slices.ContainsFunc(conditions[:i], func(other sdk.Condition) bool { return other.Type == c.Type }) {
			o.breaks(RuleConditions, "the condition %s is there twice", name)
		}
		if !slices.Contains(known, c.Status) {
			o.breaks(RuleConditions, "the condition %s has the status %s", name, quoted(string(c.Status)))
		}
		if len(c.Reason) > maxReason || !conditionReason.MatchString(c.Reason) {
			o.breaks(RuleConditions, "the condition %s has the reason %s, which is not in CamelCase, with at most %d characters", name, quoted(c.Reason), maxReason)
		}
	}
}

// checkResult checks how a call ended.
func (o *observations) checkResult(r *Result) {
	o.checkConditions(r.Conditions)
	switch {
	case r.InProgress != nil:
		o.pass(RuleWaitingFor)
		if r.InProgress.WaitingFor == "" {
			o.breaks(RuleWaitingFor, "the job is in progress, but the result does not say what it waits for")
		}
		if r.InProgress.PollAfter < 0 {
			o.breaks(RuleWaitingFor, "the job is to be polled after %s", r.InProgress.PollAfter)
		}
	case r.Failed != nil:
		o.pass(RuleFailedSaysWhy)
		for _, flaw := range r.Failed.flaws() {
			o.breaks(RuleFailedSaysWhy, "%s", flaw)
		}
	}
}

// flaws are what keeps a failure from saying why.
func (f *Failed) flaws() []string {
	if len(f.Errors) == 0 {
		return []string{"the call failed without an error"}
	}
	var flaws []string
	for _, e := range f.Errors {
		if e.Reason == "" || e.Message == "" {
			flaws = append(flaws, fmt.Sprintf("an error has reason %q and message %q; it needs both", e.Reason, e.Message))
		}
	}
	return flaws
}
