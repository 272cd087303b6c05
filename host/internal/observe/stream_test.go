package observe_test

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

	"github.com/pergola-deploy/pergola/host/internal/observe"
)

// notes are what an Observer has heard, a line for each event.
type notes struct {
	mu    sync.Mutex
	lines []string
}

var _ observe.Tracer = (*notes)(nil)

func (n *notes) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, line)
}

func (n *notes) Observe(job observe.Job, at time.Time, event observe.Event) {
	text := fmt.Sprintf("%T", event)
	switch e := event.(type) {
	case observe.Done:
		text = strings.TrimSpace(string(e.Of)+" "+e.By) + " " + e.Name + ": " + e.Result
	case observe.Progress:
		text = "Progress " + e.Step
	case observe.Waits:
		text = "Waits " + e.For
	}
	n.add(job.ID + " " + at.UTC().Format("05") + " " + text)
}

type spanKey struct{}

func (n *notes) Begin(ctx context.Context, job observe.Job, _ time.Time, work observe.Work) (context.Context, func(time.Time, observe.Done)) {
	if job.ID == "" {
		return ctx, nil
	}
	parent, _ := ctx.Value(spanKey{}).(string)
	return context.WithValue(ctx, spanKey{}, work.Name), func(_ time.Time, done observe.Done) {
		n.add("span " + work.Name + " in " + parent + " " + done.Took.String())
	}
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

var none = observe.Job{Plugin: "helm", Item: types.NamespacedName{Namespace: "ns", Name: "a"}}

func jobWith(id string) observe.Job {
	job := none
	job.ID = id
	return job
}

func TestLook(t *testing.T) {
	t.Parallel()
	heard := &notes{}
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	stream := observe.New(clock, heard)

	ctx, end := stream.Look(t.Context(), none)
	_, read := observe.Begin(ctx, observe.Work{Of: observe.KindRequest, Name: "GET x"})
	clock.Step(time.Second)
	read("200")
	heard.expect(t, "what happens before the job is known waits")
	clock.Step(time.Second)
	observe.SetJob(ctx, jobWith("j"))
	heard.expect(t, "and keeps its time", "j 01 Request GET x: 200")
	callCtx, call := observe.Begin(ctx, observe.Work{Of: observe.KindCall, Name: "Reconcile", By: "helm"})
	_, write := observe.Begin(callCtx, observe.Work{Of: observe.KindRequest, Name: "PATCH x"})
	write("409")
	clock.Step(time.Second)
	observe.Tell(callCtx, observe.Progress{Step: "Install"})
	call(observe.ResultInProgress)
	observe.SetJob(ctx, jobWith("k"))
	observe.Tell(ctx, observe.Waits{For: "the pod"})
	end()
	heard.expect(t, "spans are nested as their contexts",
		"span PATCH x in Reconcile 0s", "j 02 Request PATCH x: 409", "j 03 Progress Install",
		"span Reconcile in  1s", "j 03 Call helm Reconcile: inProgress", "k 03 Waits the pod")

	ctx, end = stream.Look(t.Context(), none)
	observe.Tell(ctx, observe.Done{Work: observe.Work{Of: observe.KindHook, Name: "Start"}, Result: observe.ResultAbort})
	end()
	heard.expect(t, "a look that comes to no job", " 03 Hook Start: abort")
}

// Nobody has to ask whether somebody listens.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	var nobody *observe.Stream
	ctx, end := nobody.Look(t.Context(), none)
	observe.SetJob(ctx, jobWith("j"))
	observe.Tell(ctx, observe.Turn{})
	same, done := observe.Begin(ctx, observe.Work{Of: observe.KindLock})
	done(observe.ResultDone)
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
	ctx, end := observe.New(clocktesting.NewFakeClock(time.Unix(0, 0)), heard).Look(t.Context(), none)
	defer end()
	observe.SetJob(ctx, jobWith("j"))
	transport := observe.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
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
	heard.expect(t, "a request that has nothing to do with a look")
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
		name, _, _ := strings.Cut(tc.want, ": ")
		heard.expect(t, tc.url, "span PATCH "+name+" in  0s", "j 00 Request PATCH "+tc.want)
	}
}
