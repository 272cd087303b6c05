package statuspage

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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

// TestStatus: the replica says everything about itself, as JSON. What is locked by another replica goes on there.
func TestStatus(t *testing.T) {
	t.Parallel()
	sources := newSources("old", "taken", "new")
	sources.Jobs.Observe(jobOf("bad"), noon, failed)
	sources.Ready = func() error { return errors.New("plugin helm is not running") }
	members := []lock.Member{
		{PodName: "pergola-0", Self: true, Plugins: []string{"a"}}, {PodName: "pergola-1", Leaving: true},
	}
	sources.Replicas = func() []lock.Member { return members }
	locks := []lock.Held{
		{Plugin: "manifest", Namespace: "shop", Name: "any", UID: "uid-old", Since: noon.Add(-time.Minute)},
		{Plugin: "manifest", Namespace: "shop", Name: "any", UID: "uid-new", Since: noon},
	}
	sources.Locks = func() []lock.Held { return locks }
	page := ask(t, open(t, sources), http.MethodGet, "/status.json", "localhost")
	got := &Status{}
	decoder := json.NewDecoder(page.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(got); err != nil || page.Header().Get("Content-Type") != "application/json" {
		t.Fatal(err, page.Header())
	}
	job := func(name string, began time.Time) Job {
		return Job{
			Plugin: "manifest", Namespace: "shop", Name: name, UID: "uid-" + name, JobID: "job-" + name,
			Operation: "Reconcile", Began: began, WaitingFor: waits.For,
		}
	}
	bad := job("bad", noon)
	bad.Ended, bad.WaitingFor = &bad.Began, ""
	bad.LastError = &JobError{Codes: failed.Error.Codes, Reason: failed.Error.Reason, Message: failed.Error.Text}
	want := &Status{
		Time: got.Time, Host: sources.Host, Plugins: sources.Plugins(), Workers: sources.Workers(),
		Replicas:   members,
		Locks:      locks,
		InProgress: []Job{job("old", noon.Add(-time.Hour)), job("new", noon.Add(2*time.Second-time.Hour))},
		Errors:     []Job{bad},
	}
	want.Host.NotReady = "plugin helm is not running"
	if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
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
	page := ask(t, open(t, sources), http.MethodGet, "/", "localhost").Body.String()
	for _, want := range []string{`<span class="count">507</span>`, "7 more, which have begun later"} {
		if !strings.Contains(page, want) {
			t.Errorf("expected %q on the page", want)
		}
	}
}
