package conformance

import (
	"fmt"
	"slices"
)

// Verdict is the result for one rule.
type Verdict string

// The verdicts.
const (
	// Passed: the rule was checked, and the plugin keeps it.
	Passed Verdict = "passed"
	// Broken: the plugin breaks the rule.
	Broken Verdict = "broken"
	// NotApplicable: the rule could not be checked, or does not concern this plugin.
	NotApplicable Verdict = "not applicable"
)

// Finding is the verdict for one rule with its reasons.
type Finding struct {
	Rule    Rule    `json:"rule"`
	Verdict Verdict `json:"verdict"`
	// Messages describe the breaches, each with its call, or why the rule is not applicable. Empty for a passed rule.
	Messages []string `json:"messages,omitempty"`
}

// Report is the result of one run of the checks.
type Report struct {
	// Info of the plugin; nil without an answer.
	Info *Info
	// Findings has one entry for each rule, in the order of Rules.
	Findings []Finding
}

// Conforms reports whether no rule is broken.
func (r *Report) Conforms() bool { return len(r.Broken()) == 0 }

// Broken returns the findings about broken rules, in the order of Rules.
func (r *Report) Broken() []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Verdict != Broken })
}

// maxMessages bounds the messages about one rule.
const maxMessages = 10

// findings by rule. A rule without an entry was not checked.
type findings map[Rule]*Finding

// pass notes that a rule was checked, unless it is broken.
func (f findings) pass(rule Rule) { f.entry(rule, Passed) }

// skip notes why a rule cannot be checked, unless it was checked before. The first reason counts.
func (f findings) skip(rule Rule, why string) {
	if f[rule] == nil {
		f.entry(rule, NotApplicable).Messages = []string{why}
	}
}

func (f findings) breaks(rule Rule, format string, args ...any) {
	message, found := fmt.Sprintf(format, args...), f.entry(rule, Broken)
	if len(found.Messages) < maxMessages && !slices.Contains(found.Messages, message) {
		found.Messages = append(found.Messages, message)
	}
}

// entry returns the finding of a rule. Any verdict replaces NotApplicable, and Broken replaces Passed.
func (f findings) entry(rule Rule, verdict Verdict) *Finding {
	had := f[rule]
	if had == nil || verdict != had.Verdict && verdict != NotApplicable && had.Verdict != Broken {
		f[rule] = &Finding{Rule: rule, Verdict: verdict}
	}
	return f[rule]
}

// list returns a finding for each rule.
func (f findings) list() []Finding {
	all := make([]Finding, 0, len(rules))
	for _, rule := range Rules() {
		all = append(all, *f.entry(rule, NotApplicable))
	}
	return all
}
