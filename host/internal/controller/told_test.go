package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

func TestNotes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2000)
	for name, test := range map[string]struct {
		texts []string
		want  string
	}{
		"one":      {[]string{"a"}, "a"},
		"several":  {[]string{"a", "b", "c"}, "a; b; c"},
		"repeated": {[]string{"a", "b", "a"}, "a; b"},
		"long":     {[]string{long, "b", "c"}, long[:maxEventNote-len("…; and 2 more")] + "…; and 2 more"},
		"too many": {slices.Repeat([]string{long[:400]}, 1), long[:400]},
		"no room":  {[]string{long[:600], long[:300], long[:301], "c"}, long[:600] + "; " + long[:300] + "; and 2 more"},
	} {
		b := &batch{}
		for _, text := range test.texts {
			b.add(text)
		}
		if found := b.note(); found != test.want {
			t.Errorf("%s: expected %q, but found %q", name, test.want, found)
		}
	}
}

// TestEventsOfOneReason: what a plugin says under one reason in one call is one event.
func TestEventsOfOneReason(t *testing.T) {
	b := newBench(t, func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		for _, name := range []string{"a", "b", "c"} {
			o.Event(true, "LeftOnTarget", "ConfigMap "+name+" is left")
			o.Event(false, "Repaired", name)
		}
		return succeeds(ctx, op, o)
	})
	b.expectSuccess(b.setJob())
	var found []string
	for len(b.events.Events) > 0 {
		found = append(found, <-b.events.Events)
	}
	want := []string{
		"Warning LeftOnTarget ConfigMap a is left; ConfigMap b is left; ConfigMap c is left", "Normal Repaired a; b; c",
	}
	if len(found) < 2 || !slices.Equal(found[:2], want) {
		t.Errorf("expected %q first, but found %q", want, found)
	}
}

// TestEventsOfLongCalls: an event does not wait for the end of a call, and what follows under its reason later is an
// event with a text of its own.
func TestEventsOfLongCalls(t *testing.T) {
	b := newBench(t, nil)
	item := b.read()
	j := &job{r: b.reconciler, item: item}
	o := &observer{job: j}
	for i := range 2 {
		o.Event(true, "HookFailed", fmt.Sprint(i))
		o.recordEvents()
		if len(b.events.Events) != i {
			t.Errorf("expected the event to wait for others, but found %d events", len(b.events.Events))
		}
		b.clock.Step(eventDelay)
		o.recordEvents()
		if len(b.events.Events) != i+1 {
			t.Errorf("expected the event to be recorded, but found %d events", len(b.events.Events))
		}
	}
}

// sink keeps the events that a recorder creates.
type sink struct {
	mu    sync.Mutex
	notes []string
}

func (s *sink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, e.Note)
	return e, nil
}

func (s *sink) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) { return e, nil }

func (s *sink) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return e, nil
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.notes)
}

// TestEventsOfLaterCalls: an event of a later call, or later in a call, is not taken for an earlier one of its reason.
func TestEventsOfLaterCalls(t *testing.T) {
	b := newBench(t, succeeds)
	recorded := &sink{}
	broadcaster := events.NewBroadcaster(recorded)
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.recorder = broadcaster.NewRecorder(b.admin.Scheme(), "pergola")
	for _, note := range []string{"one stays", "two stays", "one stays"} {
		b.event(b.item, corev1.EventTypeNormal, "LeftOnTarget", note)
	}
	err := wait.PollUntilContextCancel(t.Context(), 1, true, func(context.Context) (bool, error) {
		return recorded.count() == 2, nil
	})
	if err != nil {
		t.Errorf("expected two events, but found %q", recorded.notes)
	}
}
