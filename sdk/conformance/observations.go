package conformance

import (
	"encoding/json"
	"fmt"
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

// checkResult checks how a call ended.
func (o *observations) checkResult(r *Result) {
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
		if len(r.Failed.Errors) == 0 {
			o.breaks(RuleFailedSaysWhy, "the call failed without an error")
		}
		for _, e := range r.Failed.Errors {
			if e.Reason == "" || e.Message == "" {
				o.breaks(RuleFailedSaysWhy, "an error has reason %q and message %q; it needs both", e.Reason, e.Message)
			}
		}
	}
}
