package conformance

import (
	"slices"

	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/tally"
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

// findings by rule.
type findings = tally.Tally[Rule]

// verdicts are those of a report.
var verdicts = map[tally.Verdict]Verdict{
	tally.NotApplicable: NotApplicable, tally.Passed: Passed, tally.Broken: Broken,
}

// list returns a finding for each rule.
func list(found *findings) []Finding {
	return wire.Each(Rules(), func(rule Rule) Finding {
		entry := found.Get(rule)
		return Finding{Rule: rule, Verdict: verdicts[entry.Verdict], Messages: entry.Messages}
	})
}
