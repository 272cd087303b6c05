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

	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

// newSources are those of a host with one plugin and running jobs of these names, the oldest first.
func newSources(running ...string) Sources {
	jobs := NewJobs()
	for i, name := range running {
		jobs.Observe(jobOf(name), noon.Add(time.Duration(i)*time.Second-time.Hour), waits)
	}
	return Sources{
		Host: Host{
			Identity: "pergola-test", Version: "v1.2.3", Pod: "pergola-0", Namespace: "pergola-system",
			Started: time.Now().Add(-26 * time.Hour),
		},
		Jobs:  jobs,
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
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	lockedBy := func(names ...string) func() []lock.Held {
		return func() (all []lock.Held) {
			for i, name := range names {
				all = append(all, lock.Held{
					Key:   lock.Key{Item: types.NamespacedName{Name: name}, UID: types.UID("uid-" + name)},
					Since: noon.Add(-time.Duration(i) * time.Minute),
				})
			}
			return all
		}
	}
	for _, tc := range []struct {
		reason           string
		running          []string
		locks            func() []lock.Held
		inProgress, held []string
	}{
		{reason: "what began first comes first", running: []string{"old", "new"}, inProgress: []string{"old", "new"}},
		{
			reason:  "what is locked by another replica goes on there",
			running: []string{"taken", "mine"}, locks: lockedBy("mine"),
			inProgress: []string{"mine"}, held: []string{"mine"},
		},
		{reason: "the oldest lock comes first", locks: lockedBy("new", "old"), held: []string{"old", "new"}},
	} {
		sources := newSources(tc.running...)
		sources.Locks = tc.locks
		status := sources.status()
		var running, locks []string
		for _, job := range status.InProgress {
			running = append(running, job.Name)
		}
		for _, l := range status.Locks {
			locks = append(locks, l.Name)
		}
		if diff := cmp.Diff([][]string{tc.inProgress, tc.held}, [][]string{running, locks}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func TestStatusOfTheHost(t *testing.T) {
	t.Parallel()
	sources := newSources()
	sources.Ready = func() error { return errors.New("plugin helm is not running") }
	sources.Replicas = func() []lock.Member {
		return []lock.Member{{PodName: "pergola-0", Self: true, Plugins: []string{"a"}}, {PodName: "pergola-1", Leaving: true}}
	}
	status := sources.status()
	if status.Host.NotReady != "plugin helm is not running" {
		t.Errorf("unexpected host: %+v", status.Host)
	}
	want := []Replica{{Pod: "pergola-0", Self: true, Plugins: []string{"a"}}, {Pod: "pergola-1", Leaving: true}}
	if diff := cmp.Diff(want, status.Replicas); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
}

func TestJobsInProgressAreBounded(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range maxInProgress + 7 {
		names = append(names, fmt.Sprint(i))
	}
	sources := newSources(names...)
	status := sources.status()
	if len(status.InProgress) != maxInProgress || status.InProgress[0].Name != "0" || status.MoreInProgress != 7 {
		t.Errorf("expected those that wait longest, but found %d, and %d more", len(status.InProgress), status.MoreInProgress)
	}
	page := get(t, http.MethodGet, serve(t, sources)+"/", "").body
	for _, want := range []string{`<span class="count">507</span>`, "7 more, which have begun later"} {
		if !strings.Contains(page, want) {
			t.Errorf("expected %q on the page", want)
		}
	}
}
