package storage

import (
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/release"
)

// Attempt is the outcome of a failed revision for the next one of the same job; a nil Attempt is empty.
type Attempt struct {
	// Manifest has the objects of the revision.
	Manifest string

	key   string
	hooks []*release.Hook
	// done has the hooks with a succeeded run, and that run; begun has those with an unknown result.
	done  map[*release.Hook]release.HookExecution
	begun map[*release.Hook]release.HookPhase
	// skipping is the hook left out just now.
	skipping *release.Hook
}

// newAttempt reads the last runs of a revision's hooks, as noted in it by Helm. later are the revisions after it: its
// rollback. With one, the hooks after the objects run again, and so do all others if the rollback has hooks: they may
// have undone the work.
func newAttempt(rel *release.Release, later []*release.Release) *Attempt {
	a := &Attempt{
		key: KeyOf(rel), Manifest: rel.Manifest, hooks: rel.Hooks,
		done: map[*release.Hook]release.HookExecution{}, begun: map[*release.Hook]release.HookPhase{},
	}
	for _, h := range rel.Hooks {
		undone := len(later) > 0 && (runsAt(h, release.HookPostUpgrade) || slices.ContainsFunc(later, undoesHooks))
		switch h.LastRun.Phase {
		case release.HookPhaseSucceeded:
			if undone {
				a.begun[h] = h.LastRun.Phase
			} else {
				a.done[h] = h.LastRun
			}
		case "":
		default:
			a.begun[h] = h.LastRun.Phase
		}
	}
	return a
}

// attemptSince is newAttempt for an uninstallation; its runs are noted in the removed revision.
func attemptSince(rel *release.Release, since time.Time) *Attempt {
	a := newAttempt(rel, nil)
	for _, h := range rel.Hooks {
		if h.LastRun.StartedAt.Time.Before(since) {
			delete(a.done, h)
			delete(a.begun, h)
		}
	}
	return a
}

func undoesHooks(rollback *release.Release) bool {
	return slices.ContainsFunc(rollback.Hooks, func(h *release.Hook) bool {
		return runsAt(h, release.HookPreRollback) || runsAt(h, release.HookPostRollback)
	})
}

func runsAt(h *release.Hook, event release.HookEvent) bool { return slices.Contains(h.Events, event) }

// IsDone reports whether a hook can be left out at its next turn.
func (a *Attempt) IsDone(h *release.Hook) bool {
	if a == nil {
		return false
	}
	_, done := a.done[h]
	return done
}

// Skips reports whether a hook is left out now. With a second event in the same operation it runs then: Helm does not
// note the event of a run.
func (a *Attempt) Skips(h *release.Hook) bool {
	if !a.IsDone(h) {
		return false
	}
	a.skipping = h
	delete(a.done, h)
	if runsAt(h, release.HookPreInstall) && runsAt(h, release.HookPostInstall) ||
		runsAt(h, release.HookPreUpgrade) && runsAt(h, release.HookPostUpgrade) {
		a.begun[h] = release.HookPhaseUnknown
	}
	return true
}

// Skipped reports, once, whether a hook was left out just now.
func (a *Attempt) Skipped(h *release.Hook) bool {
	if a == nil || h == nil || a.skipping != h {
		return false
	}
	a.skipping = nil
	return true
}

// Begins returns, once, the phase of a hook's earlier run in the same job, if its result is unknown.
func (a *Attempt) Begins(h *release.Hook) (phase release.HookPhase, again bool) {
	if a == nil {
		return "", false
	}
	phase, again = a.begun[h]
	delete(a.begun, h)
	return phase, again
}

// keepRuns restores the last runs of hooks left out: Helm notes a new one for them.
func (a *Attempt) keepRuns() {
	for h, run := range a.done {
		h.LastRun = run
	}
}
