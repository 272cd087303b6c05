package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// remembered is what a host remembers of a job, as scripts read it.
type remembered struct {
	Plugin, JobID, Operation, Phase, WaitingFor string
	Calls, Requests                             int
	Timeline                                    []struct {
		Kind, Message string
		Times         int
	}
}

// journal asks a host for what it remembers of the jobs of an item, newest first. run is the base of its run directory.
func journal(ctx context.Context, run string, item *v1alpha1.DeployItem) (jobs []remembered, err error) {
	sockets, err := filepath.Glob(run + "/*/control.sock")
	if err != nil || len(sockets) != 1 {
		return nil, fmt.Errorf("expected one socket, but found %v (%w)", sockets, err)
	}
	token, err := os.ReadFile(filepath.Join(filepath.Dir(sockets[0]), "control.token"))
	if err != nil {
		return nil, err
	}
	query := url.Values{"namespace": {item.Namespace}, "name": {item.Name}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://host/v1/jobs?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", sockets[0])
	}}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the host answers %s", response.Status)
	}
	var list struct{ Jobs []remembered }
	err = json.NewDecoder(response.Body).Decode(&list)
	return list.Jobs, err
}

// kindsOf are the kinds of a timeline, each once, in the order in which they came first.
func kindsOf(job remembered) (kinds []string) {
	for _, e := range job.Timeline {
		if !slices.Contains(kinds, e.Kind) {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// TestJournal: a host tells what its jobs go through, while they do and afterwards.
func TestJournal(t *testing.T) {
	f := newFleet(t)
	f.options.RunDir = runDir(t)
	f.start(1)
	counts := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	item := counts.newItem("item", 0, 3, 200)
	create(t, item)
	jobID := setJob(t, item)
	var waited bool
	eventually(t, "the end of the job in the journal", func(ctx context.Context) (string, error) {
		jobs, err := journal(ctx, f.options.RunDir, item)
		if err != nil || len(jobs) == 0 {
			return "no job", err
		}
		waited = waited || jobs[0].WaitingFor != ""
		if jobs[0].Phase == "" {
			return fmt.Sprintf("%+v", jobs[0]), nil
		}
		return "", nil
	})
	jobs, err := journal(t.Context(), f.options.RunDir, item)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%+v (%v)", jobs, err)
	}
	job := jobs[0]
	if job.Plugin != "counter" || job.JobID != jobID || job.Operation != "Reconcile" || job.Phase != "Succeeded" || job.Calls != 4 || job.Requests < 4 {
		t.Errorf("%+v", job)
	}
	want := []string{"Request", "Lock", "PickedUp", "Call", "Waits", "Ended"}
	if got := kindsOf(job); !slices.Equal(got, want) || !waited {
		t.Errorf("expected %v, and to see it wait (%t), but found %v: %+v", want, waited, got, job)
	}
}
