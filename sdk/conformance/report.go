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
	Rule    Rule
	Verdict Verdict
	// Messages say how the rule is broken, each with the call in which it was, or why it is not applicable. Empty for a rule
	// that is kept.
	Messages []string
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

// Violation is one way in which a plugin breaks a rule.
type Violation struct {
	Rule    Rule
	Message string
}

// maxMessages bounds what is reported of a plugin that breaks the same rule again and again.
const maxMessages = 10

// ledger collects what is found about the rules.
type ledger struct {
	checked map[Rule]bool
	broken  map[Rule][]string
	skipped map[Rule]string // why a rule cannot be checked
}

func newLedger() *ledger {
	return &ledger{checked: map[Rule]bool{}, broken: map[Rule][]string{}, skipped: map[Rule]string{}}
}

// pass notes that a rule was checked. It is broken nevertheless if anything says so.
func (l *ledger) pass(rule Rule) { l.checked[rule] = true }

func (l *ledger) breaks(rule Rule, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if len(l.broken[rule]) < maxMessages && !slices.Contains(l.broken[rule], message) {
		l.broken[rule] = append(l.broken[rule], message)
	}
}

// skip notes why a rule cannot be checked. The first reason counts.
func (l *ledger) skip(rule Rule, why string) {
	if l.skipped[rule] == "" {
		l.skipped[rule] = why
	}
}

// findings returns a finding for each rule.
func (l *ledger) findings() []Finding {
	findings := make([]Finding, 0, len(rules))
	for _, rule := range Rules() {
		f := Finding{Rule: rule, Verdict: NotApplicable, Messages: []string{l.skipped[rule]}}
		if len(l.broken[rule]) > 0 {
			f.Verdict, f.Messages = Broken, l.broken[rule]
		} else if l.checked[rule] {
			f.Verdict, f.Messages = Passed, nil
		}
		findings = append(findings, f)
	}
	return findings
}
