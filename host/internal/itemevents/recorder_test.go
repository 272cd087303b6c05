package itemevents

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

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
// Rule (troubleshooting.md#reasons-of-events-and-conditions): Events of one reason with other texts do not count as
// repetitions; those with the same text do, in later jobs too.
func TestEventsOfLaterCalls(t *testing.T) {
	recorded := &sink{}
	broadcaster := events.NewBroadcaster(recorded)
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	r := New(broadcaster.NewRecorder(scheme, "pergola"))
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "item", UID: "uid"}}
	for i, note := range []string{"one stays", "two stays", "one stays"} {
		item.ResourceVersion = fmt.Sprint(i) // a status was written meanwhile
		r.Record(item, corev1.EventTypeNormal, "LeftOnTarget", note)
	}
	err = wait.PollUntilContextCancel(t.Context(), 1, true, func(context.Context) (bool, error) {
		return recorded.count() == 2, nil
	})
	if err != nil {
		t.Errorf("expected two events, but found %q", recorded.notes)
	}
}

// Rule (troubleshooting.md#reasons-of-events-and-conditions): Texts in events are bounded.
func TestLongTexts(t *testing.T) {
	recorded := events.NewFakeRecorder(1)
	New(recorded).Record(
		&v1alpha1.DeployItem{}, corev1.EventTypeNormal, strings.Repeat("r", 200), strings.Repeat("ü", 2000),
	)
	event := <-recorded.Events
	if len(event) > len(corev1.EventTypeNormal)+maxReason+maxNote+2 || !strings.HasSuffix(event, "ü…") {
		t.Errorf("the API server does not take an event of %d bytes", len(event))
	}
}
