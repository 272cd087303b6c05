package standalone

import (
	"testing"
	"time"

	"k8s.io/client-go/tools/events"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const unservedGrace = 5 * time.Second

// TestUnserved: an item that needs something and whose type nobody serves says so, once, and not before others had
// their chance.
func TestUnserved(t *testing.T) {
	const nobody = "no plugin here serves it"
	finished := func(b *bench) {
		b.patchStatus(`{"phase":"Succeeded","observedGeneration":1,"jobID":"a","jobIDFinished":"a"}`)
	}
	ask := func(b *bench) {
		b.patch(`{"metadata":{"annotations":{"` + v1alpha1.OperationAnnotation + `":"reconcile"}}}`)
	}
	nothing := func(*bench) {}
	for name, tc := range map[string]struct {
		reason         string
		before, within func(b *bench) // the first reconcile, and the time of the others
		want           string
		told           bool // before
	}{
		"new": {reason: "it needs a job", before: nothing, within: nothing, want: nobody},
		"asked": {
			reason: "somebody wants a job", within: nothing, want: nobody,
			before: func(b *bench) { finished(b); ask(b) },
		},
		"idle": {reason: "it needs nothing", before: finished, within: nothing},
		"asked during a job": {
			reason: "somebody else has taken the job", within: nothing,
			before: func(b *bench) {
				b.patchStatus(`{"phase":"Progressing","observedGeneration":1,"jobID":"b","jobIDFinished":"a"}`)
				ask(b)
			},
		},
		"asked for nonsense": {
			reason: "nobody would do it", within: nothing,
			before: func(b *bench) {
				finished(b)
				b.patch(`{"metadata":{"annotations":{"` + v1alpha1.OperationAnnotation + `":"dance"}}}`)
			},
		},
		"told by another host": {
			reason: "it may serve other types", within: nothing, told: true, want: "nobody over there",
			before: func(b *bench) {
				b.patchStatus(`{"observedGeneration":0,"conditions":[{"type":"Served","status":"False",` +
					`"reason":"TypeNotServed","message":"nobody over there",` +
					`"lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-01T00:00:00Z"}]}`)
			},
		},
		"taken up": {
			reason: "somebody else serves the type", before: nothing,
			within: func(b *bench) { b.patchStatus(`{"jobID":"b","observedGeneration":0}`) },
		},
		"plugins start": {
			reason: "one of them may serve it", within: nothing,
			before: func(b *bench) { b.options.Unserved = func(v1alpha1.DeployItemType) string { return "" } },
		},
		"other replica": {
			reason: "one is enough", within: nothing,
			before: func(b *bench) { b.options.Elected = func(v1alpha1.DeployItemType) bool { return false } },
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newUnserved(t, nobody)
			tc.before(b.bench)
			writes := b.countWrites()
			b.reconcile()
			if *writes != 0 {
				t.Errorf("others had no chance: %+v", b.read().Status)
			}
			tc.within(b.bench)
			var item *v1alpha1.DeployItem
			for range 3 {
				b.wait(unservedGrace)
				item = b.reconcile()
			}
			told := len(b.events.Events)
			if got := contract.Unserved(item); got != tc.want || told != *writes || (told == 1) != (tc.want != "" && !tc.told) {
				t.Errorf("%s: expected %q, but found %q after %d writes and %d events", tc.reason, tc.want, got, *writes, told)
			}
		})
	}
}

// TestServedAfterAll: what an item says of its type goes when that comes to be served, whether it needs a job or not.
func TestServedAfterAll(t *testing.T) {
	for name, jobIDFinished := range map[string]string{"needs a job": "", "needs none": `,"jobIDFinished":"a"`} {
		t.Run(name, func(t *testing.T) {
			b := newUnserved(t, "no plugin here serves it")
			b.reconcile()
			b.wait(unservedGrace)
			if contract.Unserved(b.reconcile()) == "" {
				t.Fatal("the item does not say that nobody serves its type")
			}
			if jobIDFinished != "" {
				b.patchStatus(`{"phase":"Succeeded","observedGeneration":1,"jobID":"a"` + jobIDFinished + `}`)
				b.reconcile()
			}
			b.serves = func(v1alpha1.DeployItemType) bool { return true }
			item := b.reconcile()
			if contract.Unserved(item) != "" || item.Status.JobID == "" {
				t.Errorf("expected a job, and nothing said of the type, but found %+v", item.Status)
			}
		})
	}
}

// unserved is a bench whose item's type nobody serves.
type unserved struct {
	*bench
	events *events.FakeRecorder
}

func newUnserved(t *testing.T, message string) *unserved {
	t.Helper()
	b := &unserved{bench: newBench(t), events: events.NewFakeRecorder(10)}
	b.recorder = b.events
	b.serves = func(v1alpha1.DeployItemType) bool { return false }
	b.options.Unserved = func(v1alpha1.DeployItemType) string { return message }
	b.options.UnservedGrace = unservedGrace
	return b
}
