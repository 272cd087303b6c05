package telemetry

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

var traceStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func jobWith(id string) Job {
	return Job{
		Plugin: "helm", Item: types.NamespacedName{Namespace: "ns", Name: "item"}, UID: "uid", ID: id, Operation: "Reconcile",
	}
}

func newTracer(t *testing.T, endpoint string, ratio float64) *Tracer {
	t.Helper()
	tracer, err := NewTracer(t.Context(), TracerOptions{
		Endpoint: endpoint, Insecure: true, SampleRatio: ratio, Version: "v1", Instance: "here",
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

// brief is what is compared of a span: its name, its parent's, how long after the start it began and how long it
// took, and its error.
func brief(spans []testenv.Span) []string {
	names := map[string]string{}
	for _, s := range spans {
		names[s.ID] = s.Name
	}
	var lines []string
	for _, s := range spans {
		line := s.Name
		if s.Parent != "" {
			line += " in " + names[s.Parent]
		}
		line += " " + s.Began.Sub(traceStart).String() + " " + s.Ended.Sub(s.Began).String()
		if s.Failed {
			line += " failed: " + s.Message
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// TestOneTrace: two replicas work on a job, and there is one trace of it.
func TestOneTrace(t *testing.T) {
	collector := testenv.StartCollector(t)
	clock := clocktesting.NewFakeClock(traceStart)
	reconcile := func(tracer *Tracer, do func(ctx context.Context)) {
		ctx, end := NewStream(clock, tracer).StartReconcile(t.Context(), Job{Plugin: "helm"})
		defer end()
		_, read := Begin(ctx, Work{Of: KindRequest, Name: "GET deployitems"}) // before the job is known
		read("200")
		SetJob(ctx, jobWith("job"))
		do(ctx)
		tracer.Close(t.Context())
	}
	work := func(ctx context.Context, of Kind, name, result string, inside func(context.Context)) {
		ctx, end := Begin(ctx, Work{Of: of, Name: name, By: "helm"})
		clock.Step(time.Second)
		inside(ctx)
		end(result)
	}
	nothing := func(context.Context) {}
	var propagated trace.SpanContext
	reconcile(newTracer(t, collector.Address, 1), func(ctx context.Context) {
		work(ctx, KindLock, "", ResultDone, nothing)
		work(ctx, KindCall, "Reconcile", ResultCrashed, func(ctx context.Context) {
			propagated = trace.SpanContextFromContext(ctx)
			work(ctx, KindRequest, "PATCH deployitems/status", "409", nothing)
		})
	})
	reconcile(newTracer(t, collector.Address, 1), func(ctx context.Context) {
		work(ctx, KindHook, "BeforeReconcile", ResultAbort, nothing)
		Report(ctx, Waits{For: "nothing"})
		Report(ctx, Ended{
			Phase: v1alpha1.DeployItemPhaseFailed, Triggered: traceStart.Add(-time.Second), PickedUp: traceStart,
			Error: &Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout}, Reason: "Late", Text: "too late"},
		})
	})
	spans := collector.Spans()
	want := []string{
		"Lock in Job Reconcile 0s 1s",
		"Request PATCH deployitems/status in Call Reconcile 2s 1s failed: 409",
		"Call Reconcile in Job Reconcile 1s 2s failed: crashed",
		"Hook BeforeReconcile in Job Reconcile 3s 1s",
		"Job Reconcile -1s 5s failed: too late",
	}
	if diff := cmp.Diff(want, brief(spans)); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	for _, s := range spans {
		if s.TraceID != spans[0].TraceID || s.Service != "pergola" || s.Attributes["pergola.job.id"] != "job" {
			t.Errorf("%+v", s)
		}
	}
	if !propagated.IsSampled() || propagated.SpanID().String() != spans[2].ID ||
		propagated.TraceID().String() != spans[0].TraceID {
		t.Errorf("the plugin continues %+v", propagated)
	}
	if root := spans[4].Attributes; root["pergola.phase"] != "Failed" || root["pergola.error.reason"] != "Late" ||
		!strings.Contains(root["pergola.error.codes"], "ERR_TIMEOUT") {
		t.Errorf("%v", root)
	}
}

// TestSampling: a job is traced as a whole or not at all.
func TestSampling(t *testing.T) {
	const jobs = 400
	collector := testenv.StartCollector(t)
	for range 2 { // replicas
		tracer := newTracer(t, collector.Address, 0.25)
		for i := range jobs {
			job := jobWith(string(rune('a'+i%26)) + strings.Repeat("x", i/26))
			_, end := tracer.startSpan(t.Context(), job, traceStart, Work{Of: KindLock})
			end(traceStart, Done{Work: Work{Of: KindLock}, Result: ResultDone})
			tracer.ended(job, traceStart, Ended{Phase: v1alpha1.DeployItemPhaseSucceeded})
		}
		tracer.Close(t.Context())
	}
	spans := map[string]int{}
	for _, s := range collector.Spans() {
		spans[s.TraceID]++
	}
	if len(spans) < jobs/8 || len(spans) > jobs/2 {
		t.Errorf("%d of %d jobs are traced", len(spans), jobs)
	}
	for id, n := range spans {
		if n != 4 {
			t.Errorf("trace %s has %d spans of 4", id, n)
		}
	}
}

// TestNoCollector: nothing waits for a collector that does not answer, and it is complained of once.
func TestNoCollector(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	var log strings.Builder
	tracer, err := NewTracer(t.Context(), TracerOptions{
		Endpoint: listener.Addr().String(), Insecure: true, SampleRatio: 1, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 20_000 { // more than it has room for
		_, end := tracer.startSpan(t.Context(), jobWith("job"), traceStart, Work{Of: KindLock})
		end(traceStart, Done{})
	}
	tracer.Close(t.Context())
	if n := strings.Count(log.String(), "cannot send traces"); n != 1 {
		t.Errorf("expected one complaint, but found %d: %s", n, log.String())
	}
}
