package main

import (
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

func TestEvidence(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC) }
	begin := func(job string, pid int) record {
		return record{Event: "begin", JobID: job, PID: pid, Time: at(20)}
	}
	end := func(job string, pid int, outcome string) record {
		return record{Event: "end", JobID: job, PID: pid, Outcome: outcome, Time: at(10)}
	}
	for _, tc := range []struct {
		reason                      string
		records                     []record
		calls, jobs, repeated, late int
		restarts                    []time.Time
	}{
		{reason: "a call for each job", records: []record{begin("a", 1), end("a", 1, "succeeded"), begin("b", 1), end("b", 1, "succeeded")}, calls: 2, jobs: 2},
		{reason: "its process has died", records: []record{begin("a", 1), begin("a", 2), end("a", 2, "succeeded")}, calls: 2, jobs: 1, repeated: 1},
		{reason: "its host has died before it could write the end", records: []record{begin("a", 1), end("a", 1, "succeeded"), begin("a", 2)}, calls: 2, jobs: 1, repeated: 1},
		{reason: "a host has forgotten what it was told", records: []record{begin("a", 1), end("a", 1, "succeeded"), begin("a", 1)}, calls: 2, jobs: 1, repeated: 1, late: 1},
		{reason: "the API server was away", records: []record{begin("a", 1), end("a", 1, "succeeded"), begin("a", 1)}, calls: 2, jobs: 1, repeated: 1, restarts: []time.Time{at(12)}},
		{reason: "it was away long before", records: []record{begin("a", 1), end("a", 1, "succeeded"), begin("a", 1)}, calls: 2, jobs: 1, repeated: 1, late: 1, restarts: []time.Time{at(4)}},
		{reason: "a call that was cancelled is made again", records: []record{begin("a", 1), end("a", 1, "cancelled"), begin("a", 1)}, calls: 2, jobs: 1, repeated: 1},
	} {
		e := &evidence{restarts: tc.restarts}
		e.add(tc.records)
		if got := []int{e.calls, e.jobs, e.repeated, len(e.afterEnd)}; !cmp.Equal(got, []int{tc.calls, tc.jobs, tc.repeated, tc.late}) {
			t.Errorf("%s: found %v", tc.reason, got)
		}
	}
}

func TestGrowth(t *testing.T) {
	t.Parallel()
	series := func(first, last float64) (samples []float64) {
		for range 20 {
			samples = append(samples, 0) // the warm-up
		}
		for i := range 80 {
			samples = append(samples, first+(last-first)*float64(i)/79)
		}
		return samples
	}
	for _, tc := range []struct {
		reason, what string
		samples      []float64
		grown        bool
	}{
		{reason: "the warm-up does not count", what: "MiB of host", samples: series(60, 60)},
		{reason: "a little is chance", what: "MiB of host", samples: series(60, 75)},
		{reason: "twice as much is not", what: "MiB of host", samples: series(60, 160), grown: true},
		{reason: "twice as much of little is", what: "MiB of counter", samples: series(10, 20)},
		{reason: "goroutines are counted otherwise", what: "goroutines of the host", samples: series(300, 450), grown: true},
		{reason: "less is no growth", what: "MiB of host", samples: series(160, 60)},
	} {
		m := &memory{samples: map[string][]float64{tc.what: tc.samples}}
		if f := m.figures()[0]; f.grown() != tc.grown {
			t.Errorf("%s: found %+v", tc.reason, f)
		}
	}
}

// TestVictims: the host that is measured stays alive, and its plugins do not.
func TestVictims(t *testing.T) {
	t.Parallel()
	made := &trouble{world: &world{fleet: make([]*testenv.Replica, 3)}, random: rand.New(rand.NewPCG(1, 2))}
	victims, bereaved := map[int]bool{}, map[int]bool{}
	for range 100 {
		victims[made.victim()], bereaved[made.bereaved()] = true, true
	}
	if want := map[int]bool{1: true, 2: true}; !maps.Equal(victims, want) {
		t.Errorf("expected the hosts of %v to be killed, but found %v", want, victims)
	}
	if want := map[int]bool{0: true, 1: true, 2: true}; !maps.Equal(bereaved, want) {
		t.Errorf("expected the plugins of %v to be killed, but found %v", want, bereaved)
	}
}

func TestObserver(t *testing.T) {
	t.Parallel()
	version := func(job, finished string, phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
		return &v1alpha1.DeployItem{
			ObjectMeta: metav1.ObjectMeta{Name: "item"},
			Status:     v1alpha1.DeployItemStatus{JobID: job, JobIDFinished: finished, Phase: phase},
		}
	}
	const progressing, succeeded, failed = v1alpha1.DeployItemPhaseProgressing, v1alpha1.DeployItemPhaseSucceeded, v1alpha1.DeployItemPhaseFailed
	for _, tc := range []struct {
		reason            string
		versions          []*v1alpha1.DeployItem
		succeeded, failed int
		again             string
	}{
		{reason: "each job counts once", versions: []*v1alpha1.DeployItem{
			version("a", "", progressing), version("a", "a", succeeded), version("a", "a", succeeded), version("b", "a", progressing), version("b", "b", failed),
		}, succeeded: 1, failed: 1},
		{reason: "a job that is begun anew", versions: []*v1alpha1.DeployItem{version("a", "a", succeeded), version("a", "", progressing)}, succeeded: 1, again: "job a has ended"},
		{reason: "a job that ends otherwise", versions: []*v1alpha1.DeployItem{version("a", "a", succeeded), version("a", "a", failed)}, succeeded: 1, again: "job a has ended"},
	} {
		o := &observer{items: map[string]*observed{}, changed: make(chan struct{}, 1)}
		for _, v := range tc.versions {
			o.see(v)
		}
		phases, again := o.tally()
		if phases[succeeded] != tc.succeeded || phases[failed] != tc.failed {
			t.Errorf("%s: found %v", tc.reason, phases)
		}
		if text := strings.Join(again, "\n"); (text == "") != (tc.again == "") || !strings.Contains(text, tc.again) {
			t.Errorf("%s: found %q", tc.reason, text)
		}
	}
}
