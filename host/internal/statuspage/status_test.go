package statuspage

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/host/internal/journal"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/replica"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

// newSources are those of a host with one plugin and these jobs.
func newSources(jobs ...journal.Job) Sources {
	return Sources{
		Host:  Host{Identity: "pergola-test", Version: "v1.2.3", Pod: "pergola-0", Namespace: "pergola-system", Started: noon.Add(-26 * time.Hour)},
		Ready: func() error { return nil },
		Plugins: func() *PluginList {
			return &PluginList{Plugins: []Plugin{{
				File: "manifest", Name: "manifest", Version: "v1", Types: []string{"landscaper.gardener.cloud/kubernetes-manifest"},
				State: "Running", SHA256: "0123456789abcdef", MemoryBytes: 50 << 20, Restarts: map[string]int{"exit": 2},
			}}}
		},
		Workers: func() []telemetry.Workers {
			return []telemetry.Workers{{Plugin: "manifest", Used: 3, Max: 20, Queued: 7}}
		},
		Overview: func() (all []journal.Job) {
			for _, job := range jobs {
				job.Entries = nil
				all = append(all, job)
			}
			return all
		},
		Jobs: func(namespace, name string) (found []journal.Job) {
			for _, job := range jobs {
				if (namespace == "" || namespace == job.Namespace) && (name == "" || name == job.Name) {
					found = append(found, job)
				}
			}
			return found
		},
		Clock: clocktesting.NewFakePassiveClock(noon),
	}
}

func newJob(name string, change func(*journal.Job)) journal.Job {
	job := journal.Job{
		Plugin: "manifest", Namespace: "shop", Name: name, UID: types.UID("uid-" + name), JobID: "job-" + name, Operation: "Reconcile", Began: noon.Add(-time.Minute),
		Entries: []journal.Entry{{Time: noon.Add(-time.Minute), Kind: "PickedUp", Times: 1}},
	}
	change(&job)
	return job
}

func waits(j *journal.Job) { j.WaitingFor = "Deployment shop/web to be available" }

func fails(j *journal.Job) {
	j.Phase, j.Ended = v1alpha1.DeployItemPhaseFailed, noon.Add(-time.Second)
	j.LastError = &journal.Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout}, Reason: "NotReady", Message: "Deployment shop/web has not become available"}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	names := func(jobs []Job) (names []string) {
		for _, job := range jobs {
			names = append(names, job.Name)
			if len(job.Timeline) > 0 {
				t.Errorf("expected no timeline in the overview, but found that of %s", job.Name)
			}
		}
		return names
	}
	lockedBy := func(names ...string) func() []lock.Held {
		return func() (all []lock.Held) {
			for i, name := range names {
				all = append(all, lock.Held{
					Key:   lock.Key{Plugin: "manifest", Item: types.NamespacedName{Namespace: "shop", Name: name}, UID: types.UID("uid-" + name)},
					Since: noon.Add(-time.Duration(i) * time.Minute),
				})
			}
			return all
		}
	}
	for _, tc := range []struct {
		reason                   string
		jobs                     []journal.Job
		locks                    func() []lock.Held
		inProgress, errors, held []string
	}{
		{
			reason: "what began first comes first, and what failed last", jobs: []journal.Job{newJob("new", waits), newJob("bad", fails), newJob("old", waits), newJob("worse", fails)},
			inProgress: []string{"old", "new"}, errors: []string{"bad", "worse"},
		},
		{
			reason: "a job that has succeeded is neither", jobs: []journal.Job{newJob("done", func(j *journal.Job) { j.Phase = v1alpha1.DeployItemPhaseSucceeded })},
		},
		{
			reason: "what is locked by another replica goes on there", jobs: []journal.Job{newJob("taken", waits), newJob("mine", waits)}, locks: lockedBy("mine"),
			inProgress: []string{"mine"}, held: []string{"mine"},
		},
		{
			reason: "the oldest lock comes first", locks: lockedBy("new", "old"), held: []string{"old", "new"},
		},
	} {
		sources := newSources(tc.jobs...)
		sources.Locks = tc.locks
		status := sources.status()
		var locks []string
		for _, l := range status.Locks {
			locks = append(locks, l.Name)
		}
		var failed []Job
		for _, job := range status.Errors {
			failed = append(failed, job.Job)
		}
		if diff := cmp.Diff([][]string{tc.inProgress, tc.errors, tc.held}, [][]string{names(status.InProgress), names(failed), locks}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

// An error is no cause for alarm any more once the item has succeeded; that of another item, or a later one, is.
func TestErrorsThatArePast(t *testing.T) {
	t.Parallel()
	again := func(j *journal.Job) { fails(j); j.JobID = "job-again" }
	done := func(j *journal.Job) { j.Phase = v1alpha1.DeployItemPhaseSucceeded }
	sources := newSources(newJob("a", again), newJob("a", done), newJob("a", fails), newJob("b", fails))
	var past []bool
	for _, failed := range sources.status().Errors {
		past = append(past, failed.SucceededSince)
	}
	if diff := cmp.Diff([]bool{false, true, false}, past); diff != "" {
		t.Errorf("succeeded since (-want +got):\n%s", diff)
	}
	pages, err := newPages()
	if err != nil {
		t.Fatal(err)
	}
	page, err := render(pages.overview, overview{Status: sources.status()})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), "succeeded since"); n != 1 {
		t.Errorf("expected one error to be marked, but found %d", n)
	}
}

func TestStatusOfTheHost(t *testing.T) {
	t.Parallel()
	sources := newSources()
	sources.Ready = func() error { return errors.New("plugin helm is not running") }
	sources.Replicas = func() []replica.Member {
		return []replica.Member{{PodName: "pergola-0", Self: true, Plugins: []string{"manifest"}}, {PodName: "pergola-1", Leaving: true}}
	}
	status := sources.status()
	if status.Host.NotReady != "plugin helm is not running" || !status.Time.Equal(noon) {
		t.Errorf("unexpected host: %+v", status.Host)
	}
	if diff := cmp.Diff([]Replica{{Pod: "pergola-0", Self: true, Plugins: []string{"manifest"}}, {Pod: "pergola-1", Leaving: true}}, status.Replicas); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Workers{{Plugin: "manifest", Used: 3, Max: 20, Queued: 7}}, status.Workers); diff != "" {
		t.Errorf("workers (-want +got):\n%s", diff)
	}
}

func TestJobsInProgressAreBounded(t *testing.T) {
	t.Parallel()
	jobs := []journal.Job{}
	for i := range maxInProgress + 7 {
		jobs = append(jobs, newJob(fmt.Sprint(i), waits))
	}
	sources := newSources(jobs...)
	status := sources.status()
	if oldest := jobs[len(jobs)-1].Name; len(status.InProgress) != maxInProgress || status.InProgress[0].Name != oldest || status.MoreInProgress != 7 {
		t.Errorf("expected those that wait longest, but found %d, and %d more", len(status.InProgress), status.MoreInProgress)
	}
	page := get(t, http.MethodGet, serve(t, sources)+"/", "").body
	for _, want := range []string{`<span class="count">507</span>`, "7 more, which have begun later"} {
		if !strings.Contains(page, want) {
			t.Errorf("expected %q on the page", want)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	var jobs []journal.Job
	for i := range 3 * maxErrors {
		jobs = append(jobs, newJob(fmt.Sprint(i), fails))
	}
	if found := newSources(jobs...).status().Errors; len(found) != maxErrors || found[0].Name != "0" {
		t.Errorf("expected the last %d, but found %d", maxErrors, len(found))
	}
}

func TestShortDurations(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0ms", 900 * time.Millisecond: "900ms", 12345 * time.Millisecond: "12.3s", 192 * time.Second: "3m 12s",
		3*time.Hour + 5*time.Minute: "3h 5m", 50 * time.Hour: "2d 2h",
	} {
		if got := short(d); got != want {
			t.Errorf("%d ns: expected %s, but found %s", d, want, got)
		}
	}
	if got := age(noon, noon.Add(time.Second)); got != "0ms" {
		t.Errorf("what another clock says is in the future is now, but found %s", got)
	}
}
