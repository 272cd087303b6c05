package statuspage

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/journal"
)

// TestLookingCostsLittle: what is shown is made anew only when it is old.
func TestLookingCostsLittle(t *testing.T) {
	t.Parallel()
	clock, plugins, jobs := clocktesting.NewFakePassiveClock(noon), 0, 0
	sources := newSources()
	sources.Clock = clock
	list, remembered := sources.Plugins, sources.Overview
	sources.Plugins = func() *control.PluginList { plugins++; return list() }
	sources.Overview = func() []journal.Job { jobs++; return remembered() }
	sources.Jobs = func(string, string) []journal.Job {
		t.Error("the timelines of all jobs are not needed")
		return nil
	}
	status := newStatus(sources)
	for _, tc := range []struct {
		reason        string
		after         time.Duration
		plugins, jobs int
	}{
		{"the first look", 0, 1, 1},
		{"it is as it was", statusAge - 1, 1, 1},
		{"jobs change", statusAge, 1, 2},
		{"plugins do, too", pluginsAge, 2, 3},
	} {
		clock.SetTime(noon.Add(tc.after))
		status.get()
		if plugins != tc.plugins || jobs != tc.jobs {
			t.Errorf("%s: found %d lists of plugins and %d of jobs", tc.reason, plugins, jobs)
		}
	}
}
