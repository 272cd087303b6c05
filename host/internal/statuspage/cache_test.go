package statuspage

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/host/internal/journal"
)

// TestLookingCostsLittle: what is shown is made anew only when it is old.
func TestLookingCostsLittle(t *testing.T) {
	t.Parallel()
	clock, jobs := clocktesting.NewFakePassiveClock(noon), 0
	sources := newSources()
	sources.Clock = clock
	remembered := sources.Overview
	sources.Overview = func() []journal.Job { jobs++; return remembered() }
	sources.Jobs = func(string, string) []journal.Job {
		t.Error("the timelines of all jobs are not needed")
		return nil
	}
	status := newStatus(sources)
	for _, tc := range []struct {
		reason string
		after  time.Duration
		jobs   int
	}{
		{"the first look", 0, 1},
		{"it is as it was", statusAge - 1, 1},
		{"jobs change", statusAge, 2},
	} {
		clock.SetTime(noon.Add(tc.after))
		status.get()
		if jobs != tc.jobs {
			t.Errorf("%s: found %d lists of jobs", tc.reason, jobs)
		}
	}
}
