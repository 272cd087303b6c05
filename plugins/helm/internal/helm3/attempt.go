package helm3

import (
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/release"
)

// attempt is what a failed revision has settled for the next one of the same job. A nil attempt has settled nothing.
type attempt struct {
	key      string
	manifest string
	hooks    []*release.Hook
	// done are the hooks that have succeeded, with that run; begun are those of which that is not known.
	done  map[*release.Hook]release.HookExecution
	begun map[*release.Hook]release.HookPhase
	// skipping is the hook that is not run.
	skipping *release.Hook
}

// newAttempt reads what a revision says of its hooks: Helm notes their last runs in it. later are the revisions after
// it: those that it was rolled back with. Hooks that ran after its objects were written run again then, and so do all
// others if the rollback has hooks, which may have undone what they have done.
func newAttempt(rel *release.Release, later []*release.Release) *attempt {
	a := &attempt{
		key: keyOf(rel), manifest: rel.Manifest, hooks: rel.Hooks,
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

// attemptSince is newAttempt for an uninstallation, which notes the runs in the revision that it removes.
func attemptSince(rel *release.Release, since time.Time) *attempt {
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

// isDone reports whether a hook need not run when its turn comes next.
func (a *attempt) isDone(h *release.Hook) bool {
	if a == nil {
		return false
	}
	_, done := a.done[h]
	return done
}

// skips reports whether a hook need not run now. When it has a second event in the same operation it runs then: Helm
// does not note for which of them it has run.
func (a *attempt) skips(h *release.Hook) bool {
	if !a.isDone(h) {
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

// skipped reports, once, whether a hook was skipped just now.
func (a *attempt) skipped(h *release.Hook) bool {
	if a == nil || h == nil || a.skipping != h {
		return false
	}
	a.skipping = nil
	return true
}

// keepRuns keeps Helm from noting that a hook runs which does not.
func (a *attempt) keepRuns() {
	for h, run := range a.done {
		h.LastRun = run
	}
}
