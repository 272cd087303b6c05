// Package tally collects verdicts on rules.
package tally

import (
	"fmt"
	"slices"
	"sync"
)

// Verdict is the result for one rule.
type Verdict int

// The verdicts. A rule without a check has the first one.
const (
	NotApplicable Verdict = iota
	Passed
	Broken
)

// Entry is the verdict for one rule with its reasons.
type Entry struct {
	Verdict  Verdict
	Messages []string
}

// maxMessages bounds the messages about one rule.
const maxMessages = 10

// Tally has the entries of rules. The zero value is empty. Calls beside one another may add to it.
type Tally[Rule comparable] struct {
	mu      sync.Mutex
	entries map[Rule]*Entry
}

// Get returns the entry of a rule.
func (t *Tally[Rule]) Get(rule Rule) Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *t.entry(rule, NotApplicable)
}

// Pass notes that a rule was checked, unless it is broken.
func (t *Tally[Rule]) Pass(rule Rule) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entry(rule, Passed)
}

// Skip notes why a rule cannot be checked, unless it was checked before. The first reason counts.
func (t *Tally[Rule]) Skip(rule Rule, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries[rule] == nil {
		t.entry(rule, NotApplicable).Messages = []string{why}
	}
}

// Break notes a breach.
func (t *Tally[Rule]) Break(rule Rule, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	message, found := fmt.Sprintf(format, args...), t.entry(rule, Broken)
	if len(found.Messages) < maxMessages && !slices.Contains(found.Messages, message) {
		found.Messages = append(found.Messages, message)
	}
}

// entry returns the entry of a rule, with this verdict or a higher one.
func (t *Tally[Rule]) entry(rule Rule, verdict Verdict) *Entry {
	if t.entries == nil {
		t.entries = map[Rule]*Entry{}
	}
	if had := t.entries[rule]; had == nil || verdict > had.Verdict {
		t.entries[rule] = &Entry{Verdict: verdict}
	}
	return t.entries[rule]
}
