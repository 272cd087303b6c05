package sdktest

import (
	"encoding/json"
	"fmt"
	"testing"
)

// Rule names a rule that every deployer has to keep. The package comment tells what each one says.
type Rule string

// The rules, in the order of the package comment.
const (
	RuleOneResult         Rule = "one-result"
	RuleStatusSequence    Rule = "status-sequence"
	RuleStatusKind        Rule = "status-kind"
	RuleWaitingFor        Rule = "waiting-for"
	RuleFailedSaysWhy     Rule = "failed-says-why"
	RuleExportsObject     Rule = "exports-object"
	RuleCallEnds          Rule = "call-ends"
	RuleInfoComplete      Rule = "info-complete"
	RuleConfigRequired    Rule = "config-required"
	RuleConfigStrict      Rule = "config-strict"
	RuleReconcileSucceeds Rule = "reconcile-succeeds"
	RuleReconcileAgain    Rule = "reconcile-again"
	RuleDeleteSucceeds    Rule = "delete-succeeds"
	RuleDeleteAgain       Rule = "delete-again"
)

// violations collects the rules that one call broke.
type violations []violation

type violation struct {
	rule    Rule
	message string
}

func (v *violations) add(rule Rule, format string, args ...any) {
	*v = append(*v, violation{rule: rule, message: fmt.Sprintf(format, args...)})
}

// report fails the test for each violation. where says in which call it was.
func (v violations) report(t testing.TB, where string) {
	t.Helper()
	for _, broken := range v {
		reportBroken(t, where, broken.rule, "%s", broken.message)
	}
}

func reportBroken(t testing.TB, where string, rule Rule, format string, args ...any) {
	t.Helper()
	t.Errorf("sdktest: %s: rule %s is broken: %s", where, rule, fmt.Sprintf(format, args...))
}

// checkStatus checks the document of a provider status.
func (v *violations) checkStatus(document []byte) {
	var meta struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(document, &meta); err != nil {
		v.add(RuleStatusKind, "the provider status is not a JSON object: %v", err)
		return
	}
	if meta.APIVersion == "" || meta.Kind == "" {
		v.add(RuleStatusKind, "the provider status has apiVersion %q and kind %q; it needs both", meta.APIVersion, meta.Kind)
	}
}

// checkResult checks how a call ended.
func (v *violations) checkResult(r *Result) {
	switch {
	case r.InProgress != nil:
		if r.InProgress.WaitingFor == "" {
			v.add(RuleWaitingFor, "the job is in progress, but the result does not say what it waits for")
		}
		if r.InProgress.PollAfter < 0 {
			v.add(RuleWaitingFor, "the job is to be polled after %s", r.InProgress.PollAfter)
		}
	case r.Failed != nil:
		if len(r.Failed.Errors) == 0 {
			v.add(RuleFailedSaysWhy, "the call failed without an error")
		}
		for _, e := range r.Failed.Errors {
			if e.Reason == "" || e.Message == "" {
				v.add(RuleFailedSaysWhy, "an error has reason %q and message %q; it needs both", e.Reason, e.Message)
			}
		}
	}
}
