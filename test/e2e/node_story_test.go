package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// story is what an item says about itself in the course of time.
type story struct {
	began time.Time

	mu       sync.Mutex
	chapters []chapter
	read     int // chapters of former jobs
}

// chapter is the time for which an item says the same.
type chapter struct {
	at      time.Time
	phase   v1alpha1.DeployItemPhase
	message string
}

// newStory follows an item, and puts into the log of the test in the end what it has said.
func newStory(t *testing.T, items client.WithWatch, item *v1alpha1.DeployItem) *story {
	t.Helper()
	s := &story{began: time.Now()}
	t.Cleanup(func() { t.Logf("phases, after seconds:\n%s", s) })
	follow(t, items, &v1alpha1.DeployItemList{}, item, func(event watch.EventType, o client.Object) {
		s.add(event, o.(*v1alpha1.DeployItem))
	})
	return s
}

// gone is the phase in the last chapter of an item that was deleted.
const gone v1alpha1.DeployItemPhase = "(gone)"

func (s *story) add(event watch.EventType, item *v1alpha1.DeployItem) {
	next := chapter{at: time.Now(), phase: item.Status.Phase, message: conditionOf(item, "Reconciling").Message}
	if e := item.Status.LastError; e != nil && next.message == "" {
		next.message = fmt.Sprintf("%s %v: %s", e.Reason, e.Codes, e.Message)
	}
	if event == watch.Deleted {
		next = chapter{at: next.at, phase: gone}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.chapters) - 1; last >= 0 && s.chapters[last].phase == next.phase &&
		s.chapters[last].message == next.message {
		return
	}
	s.chapters = append(s.chapters, next)
}

// turn has what was said so far belong to a former job.
func (s *story) turn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = len(s.chapters)
}

// first returns when the item was first in a phase with a message that contains a text, in its last job; zero if it never was.
func (s *story) first(phase v1alpha1.DeployItemPhase, message string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.chapters[s.read:] {
		if c.phase == phase && strings.Contains(c.message, message) {
			return c.at
		}
	}
	return time.Time{}
}

// await waits until the item is or was in a phase with a message that contains a text, and returns since when.
func (s *story) await(t *testing.T, phase v1alpha1.DeployItemPhase, message string) (at time.Time) {
	t.Helper()
	eventually(t, fmt.Sprintf("phase %s with message %q", phase, message), func(context.Context) (string, error) {
		if at = s.first(phase, message); at.IsZero() {
			return "the item said:\n" + s.String(), nil
		}
		return "", nil
	})
	return at
}

// String is a table.
func (s *story) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0) // which writes to memory cannot fail
	for _, c := range s.chapters {
		fmt.Fprintf(table, "%.1f\t%s\t%s\n", c.at.Sub(s.began).Seconds(), c.phase, c.message)
	}
	table.Flush()
	return text.String()
}

// happening is something that happens once.
type happening struct{ at atomic.Pointer[time.Time] }

// await waits until it has happened, and returns when.
func (h *happening) await(t *testing.T, what string) time.Time {
	t.Helper()
	eventually(t, what, func(context.Context) (string, error) {
		if h.at.Load() == nil {
			return "it has not happened", nil
		}
		return "", nil
	})
	return *h.at.Load()
}

// notice notes when an object first meets a condition.
func notice[O client.Object](t *testing.T, cl client.WithWatch, list client.ObjectList, o O, meets func(O) bool) *happening {
	t.Helper()
	var h happening
	follow(t, cl, list, o, func(_ watch.EventType, o client.Object) {
		if now := time.Now(); meets(o.(O)) {
			h.at.CompareAndSwap(nil, &now)
		}
	})
	return &h
}

// follow calls note with each state of an object that a watch tells of, until the test ends.
func follow(t *testing.T, cl client.WithWatch, list client.ObjectList, o client.Object, note func(watch.EventType, client.Object)) {
	t.Helper()
	events, err := cl.Watch(t.Context(), list, client.InNamespace(o.GetNamespace()),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", o.GetName())})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range events.ResultChan() {
			if o, ok := event.Object.(client.Object); ok {
				note(event.Type, o)
			}
		}
	}()
	t.Cleanup(func() {
		events.Stop()
		<-ended
	})
}
