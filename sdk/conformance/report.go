package conformance

import (
	"fmt"
	"slices"
)

// Verdict says how a plugin stands to a rule.
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

// Finding is what was found for one rule.
type Finding struct {
	Rule    Rule    `json:"rule"`
	Verdict Verdict `json:"verdict"`
	// Messages say how the rule is broken, each with the call in which it was, or why it is not applicable. Empty for a
	// rule that is kept.
	Messages []string `json:"messages,omitempty"`
}

// Report is what was found in one run of the checks.
type Report struct {
	// Info is what the plugin says about itself; nil if it did not answer.
	Info *Info
	// Findings has one entry for each rule, in the order of Rules.
	Findings []Finding
}

// Conforms reports whether no rule is broken.
func (r *Report) Conforms() bool { return len(r.Broken()) == 0 }

// Broken returns the findings about rules that are broken, in the order of Rules.
func (r *Report) Broken() []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Verdict != Broken })
}

// maxMessages bounds what is reported of a plugin that breaks the same rule again and again.
const maxMessages = 10

// findings collect what is found about the rules. A rule without an entry was not checked.
type findings map[Rule]*Finding

// pass notes that a rule was checked. It is broken nevertheless if anything says so.
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
