package release

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is what Helm does with the revisions of a release, as far as it is seen in their labels.
type model struct {
	*rapid.T

	history []Revision
	clock   time.Time
	// unlabelled says that Helm alone labels its rollbacks, so that they seem to be somebody else's.
	unlabelled bool
	// deployed says that an operation has succeeded, and rolledBack that one has begun a rollback.
	deployed, rolledBack bool
}

// outcome is how far an operation gets.
type outcome string

const (
	crashAfterMarking outcome = "crash after marking one interrupted revision"
	crashAfterCreate  outcome = "crash when the revision is stored"
	crashBeforeDone   outcome = "crash when the one before is superseded"
	fails             outcome = "failure"
	rollsBack         outcome = "failure with a rollback"
	crashInRollback   outcome = "crash in the rollback"
	crashUninstalling outcome = "crash while an atomic installation is removed"
	succeeds          outcome = "success"
)

func (m *model) newest() *Revision { return &m.history[len(m.history)-1] }

func (m *model) has(status Status) bool {
	return slices.ContainsFunc(m.history, func(r Revision) bool { return r.Status == status })
}

// perform carries a decision out.
func (m *model) perform(d Decision, want Want, o outcome) {
	for n, version := range d.Interrupted {
		i := slices.IndexFunc(m.history, func(r Revision) bool { return r.Version == version })
		if i < 0 || m.history[i].Status.settled() {
			m.Fatalf("revision %d is not interrupted", version)
		}
		m.history[i].Status = StatusFailed
		if n == 0 && o == crashAfterMarking {
			return
		}
	}
	m.refuse(d)
	last := 0
	if len(m.history) > 0 {
		last = m.newest().Version
	}
	if d.Revision != last+1 {
		m.Fatalf("expected that revision %d is made, but found %d", last+1, d.Revision)
	}
	status := StatusPendingUpgrade
	if d.Action == Install {
		status = StatusPendingInstall
		if len(m.history) > 0 && m.newest().Status != StatusFailed { // which stays so
			m.newest().Status = StatusSuperseded
		}
	}
	labels := Labels(want.Item, d.Revision, want.Input)
	m.add(Revision{Version: d.Revision, Status: status, Item: labels[ItemLabel], Input: digestOf(labels, InputLabel, d.Revision)})
	m.finish(d, want, o)
}

// refuse fails where Helm refuses to work.
func (m *model) refuse(d Decision) {
	switch {
	case d.Action == Install:
		if len(m.history) > 0 && m.newest().Status != StatusUninstalled && m.newest().Status != StatusFailed {
			m.Fatalf("cannot re-use a name that is still in use: %+v", m.history)
		}
	case len(m.history) == 0:
		m.Fatalf("nothing to upgrade")
	default:
		if !m.newest().Status.settled() {
			m.Fatalf("another operation is in progress: %+v", m.history)
		}
		if !m.has(StatusDeployed) && m.newest().Status != StatusFailed && m.newest().Status != StatusSuperseded {
			m.Fatalf("no deployed releases: %+v", m.history)
		}
	}
}

func (m *model) finish(d Decision, want Want, o outcome) {
	made := len(m.history) - 1
	switch o {
	case fails:
		m.history[made].Status = StatusFailed
	case crashUninstalling:
		m.history[made].Status = StatusFailed
		if d.Action == Install {
			m.history[made].Status = StatusUninstalling
		}
	case rollsBack, crashInRollback:
		m.history[made].Status = StatusFailed
		if !m.rollBack(d, want) {
			return
		}
		if o == rollsBack {
			m.supersede()
			m.newest().Status = StatusDeployed
		}
	case crashBeforeDone:
		m.supersede()
	case succeeds:
		m.supersede()
		m.history[made].Status = StatusDeployed
		m.deployed = true
	default:
	}
}

// rollBack begins the rollback to the last revision that has succeeded, if there is one.
func (m *model) rollBack(d Decision, want Want) bool {
	for _, before := range slices.Backward(m.history) {
		if before.Status != StatusDeployed && before.Status != StatusSuperseded {
			continue
		}
		// Helm copies the labels, and so the one of the input is for another revision.
		back := Revision{Version: d.Revision + 1, Status: StatusPendingRollback, Item: before.Item}
		if !m.unlabelled {
			labels := Labels(want.Item, back.Version, RolledBack)
			back.Item, back.Input = labels[ItemLabel], digestOf(labels, InputLabel, back.Version)
		}
		m.rolledBack = true
		m.add(back)
		return true
	}
	return false
}

func (m *model) supersede() {
	for i := range m.history {
		if m.history[i].Status == StatusDeployed {
			m.history[i].Status = StatusSuperseded
		}
	}
}

func (m *model) add(r Revision) {
	r.ModifiedAt = m.clock
	m.history = append(m.history, r)
}

// histories draws what may be found, whether or not Helm could have left it so.
func histories() *rapid.Generator[[]Revision] {
	return rapid.Custom(func(t *rapid.T) []Revision {
		var history []Revision
		version := 0
		for range rapid.IntRange(0, 4).Draw(t, "revisions") {
			version += rapid.IntRange(1, 3).Draw(t, "gap")
			r := revision(version, rapid.SampledFrom([]Status{
				StatusDeployed, StatusFailed, StatusSuperseded, StatusUninstalled, StatusUninstalling, StatusPendingInstall, StatusPendingUpgrade,
				StatusPendingRollback, StatusUnknown, "paused",
			}).Draw(t, "status"), rapid.SampledFrom([]string{us, us, "", another}).Draw(t, "item"), rapid.SampledFrom([]string{"", input, "other"}).Draw(t, "input"))
			r.ModifiedAt = now.Add(-time.Duration(rapid.IntRange(-1, 10).Draw(t, "age")) * time.Minute)
			history = append(history, r)
		}
		return history
	})
}

// TestDecisionsLeadToTheWantedRelease: from whatever is found, and whatever is interrupted on the way, the decisions end in a deployed
// revision with the wanted input, unless the release belongs to another deploy item.
func TestDecisionsLeadToTheWantedRelease(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{T: t, history: histories().Draw(t, "history"), clock: now}
		want := wanted()
		want.Force, want.Drifted = rapid.Bool().Draw(t, "force"), rapid.Bool().Draw(t, "drifted")
		m.unlabelled = rapid.Bool().Draw(t, "unlabelled")
		setbacks := rapid.IntRange(0, 4).Draw(t, "setbacks")
		touched := false // by us
		for step := 0; ; step++ {
			if step > 20 {
				t.Fatalf("it does not end: %+v", m.history)
			}
			want.Now = m.clock
			d := Decide(m.history, want)
			// What we have done does not seem to be somebody else's.
			mine := touched && (!m.unlabelled || !m.rolledBack)
			switch d.Action {
			case Conflict:
				if newest := m.newest(); mine || newest.Item != another || newest.Status == StatusUninstalled {
					t.Fatalf("expected a conflict over nothing but what another deploy item has, but found %+v", m.history)
				}
				return
			case Wait:
				if mine {
					t.Fatalf("we wait for ourselves: %+v", m.history)
				}
				if !d.Until.After(m.clock) {
					t.Fatalf("the wait is over already: %+v", d)
				}
				m.clock = d.Until
			case Nothing:
				newest := m.newest()
				if newest.Status != StatusDeployed || newest.Item != us || newest.Input != want.Input || want.Force || want.Drifted || d.Revision != newest.Version {
					t.Fatalf("that is not what was wanted: %+v", m.history)
				}
				deployed := 0
				for _, r := range m.history {
					if r.Status == StatusDeployed {
						deployed++
					}
				}
				if m.deployed && deployed != 1 {
					t.Fatalf("expected one deployed revision, but found %d", deployed)
				}
				return
			case Install, Upgrade:
				o := succeeds
				if setbacks > 0 {
					setbacks--
					o = rapid.SampledFrom([]outcome{
						crashAfterMarking, crashAfterCreate, crashBeforeDone, fails, rollsBack, crashInRollback, crashUninstalling,
					}).Draw(t, "outcome")
				}
				before := len(m.history)
				m.perform(d, want, o)
				touched = touched || len(m.history) > before
				if o == succeeds {
					want.Force, want.Drifted = false, false
				}
			default:
				t.Fatalf("unexpected decision %+v", d)
			}
			m.clock = m.clock.Add(time.Second)
		}
	})
}
