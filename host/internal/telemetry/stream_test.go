package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// notes are what an Observer has heard, a line for each event.
type notes struct {
	mu    sync.Mutex
	lines []string
}

var _ Observer = (*notes)(nil)

func (n *notes) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, line)
}

func (n *notes) Observe(job Job, at time.Time, event Event) {
	text := fmt.Sprintf("%T", event)
	switch e := event.(type) {
	case Done:
		text = strings.TrimSpace(string(e.Of)+" "+e.By) + " " + e.Name + ": " + e.Result
	case Progress:
		text = "Progress " + e.Step
	case Waits:
		text = "Waits " + e.For
	}
	n.add(job.ID + " " + at.UTC().Format("05") + " " + text)
}

func (n *notes) expect(t *testing.T, reason string, want ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if diff := cmp.Diff(want, slices.Clone(n.lines)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", reason, diff)
	}
	n.lines = nil
}

var noJob = Job{Plugin: "helm", Item: types.NamespacedName{Namespace: "ns", Name: "a"}}

func jobOfID(id string) Job {
	job := noJob
	job.ID = id
	return job
}

func TestStream(t *testing.T) {
	t.Parallel()
	heard := &notes{}
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	stream := NewStream(clock, nil, heard)

	ctx, end := stream.StartReconcile(t.Context(), noJob)
	_, read := Begin(ctx, Work{Of: KindRequest, Name: "GET x"})
	clock.Step(time.Second)
	read("200")
	heard.expect(t, "what happens before the job is known waits")
	clock.Step(time.Second)
	SetJob(ctx, jobOfID("j"))
	heard.expect(t, "and keeps its time", "j 01 Request GET x: 200")
	callCtx, call := Begin(ctx, Work{Of: KindCall, Name: "Reconcile", By: "helm"})
	_, write := Begin(callCtx, Work{Of: KindRequest, Name: "PATCH x"})
	write("409")
	clock.Step(time.Second)
	Report(callCtx, Progress{Step: "Install"})
	call(ResultInProgress)
	SetJob(ctx, jobOfID("k"))
	Report(ctx, Waits{For: "the pod"})
	end()
	heard.expect(t, "each event is of the job of its time",
		"j 02 Request PATCH x: 409", "j 03 Progress Install", "j 03 Call helm Reconcile: inProgress", "k 03 Waits the pod")

	ctx, end = stream.StartReconcile(t.Context(), noJob)
	Report(ctx, Done{Work: Work{Of: KindHook, Name: "Start"}, Result: ResultAbort})
	end()
	heard.expect(t, "a reconcile that comes to no job", " 03 Hook Start: abort")
}

// Nobody has to ask whether somebody listens.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	var nobody *Stream
	ctx, end := nobody.StartReconcile(t.Context(), noJob)
	SetJob(ctx, jobOfID("j"))
	Report(ctx, Dequeued{})
	same, done := Begin(ctx, Work{Of: KindLock})
	done(ResultDone)
	end()
	if same != t.Context() || ctx != t.Context() {
		t.Error("expected the context that was given")
	}
}

// roundTripper answers requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTransport(t *testing.T) {
	t.Parallel()
	heard := &notes{}
	ctx, end := NewStream(clocktesting.NewFakeClock(time.Unix(0, 0)), nil, heard).StartReconcile(t.Context(), noJob)
	defer end()
	SetJob(ctx, jobOfID("j"))
	transport := Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Host == "down" {
			return nil, errors.New("down")
		}
		return &http.Response{StatusCode: http.StatusConflict, Body: http.NoBody}, nil
	}))
	send := func(ctx context.Context, method, url string) {
		request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusConflict {
			t.Errorf("expected the answer as it is, but found %d (%v)", response.StatusCode, err)
		}
	}
	send(t.Context(), http.MethodGet, "http://up/api/v1/secrets")
	heard.expect(t, "a request that has nothing to do with a reconcile")
	for _, tc := range []struct{ url, want string }{
		{"http://up/apis/landscaper.gardener.cloud/v1alpha1/namespaces/ns/deployitems/a/status", "deployitems/status: 409"},
		{"http://up/apis/landscaper.gardener.cloud/v1alpha1/namespaces/ns/deployitems/a", "deployitems: 409"},
		{"http://up/apis/landscaper.gardener.cloud/v1alpha1/deployitems?limit=500", "deployitems: 409"},
		{"http://up/k8s/clusters/c-1/api/v1/namespaces/ns/secrets/apis", "secrets: 409"},
		{"http://up/api/v1/namespaces/ns/serviceaccounts/a/token", "serviceaccounts/token: 409"},
		{"http://up/api/v1/namespaces/ns/status", "namespaces/status: 409"},
		{"http://up/api/v1/namespaces/ns", "namespaces: 409"},
		{"http://up/api", "other: 409"},
		{"http://up/version", "other: 409"},
		{"http://down/api/v1/nodes/a", "nodes: error"},
	} {
		send(ctx, http.MethodPatch, tc.url)
		heard.expect(t, tc.url, "j 00 Request PATCH "+tc.want)
	}
}
