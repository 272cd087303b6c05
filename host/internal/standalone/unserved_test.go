package standalone

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const unservedGrace = 5 * time.Second

// TestUnserved: an item that needs something and whose type nobody serves says so, once, and not before others had
// their chance.
// Rule (troubleshooting.md#a-deployitem-that-makes-no-progress): An item says so if no plugin serves its type.
func TestUnserved(t *testing.T) {
	const nobody, theirs = "no plugin here serves it", "nobody over there"
	finished := func(b *bench) {
		b.patchStatus(`{"phase":"Succeeded","observedGeneration":1,"jobID":"a","jobIDFinished":"a"}`)
	}
	underWay := func(b *bench) {
		b.patchStatus(`{"phase":"Progressing","observedGeneration":1,"jobID":"b","jobIDFinished":"a"}`)
	}
	ask := func(operation string, before func(*bench)) func(*bench) {
		return func(b *bench) {
			before(b)
			b.patch(`{"metadata":{"annotations":{"` + v1alpha1.OperationAnnotation + `":"` + operation + `"}}}`)
		}
	}
	toldBefore := func(b *bench) {
		b.patchStatus(`{"observedGeneration":0,"conditions":[{"type":"Served","status":"False",` +
			`"reason":"TypeNotServed","message":"` + theirs + `",` +
			`"lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-01T00:00:00Z"}]}`)
	}
	takenUp := func(b *bench) { b.patchStatus(`{"jobID":"b","observedGeneration":0}`) }
	start := func(b *bench) { b.options.Unserved = func(v1alpha1.DeployItemType) string { return "" } }
	leave := func(b *bench) { b.options.Elected = func(v1alpha1.DeployItemType) bool { return false } }
	nothing := func(*bench) {}
	for _, tc := range []struct {
		reason         string
		before, within func(b *bench) // the first reconcile, and the time of the others
		want           string
	}{
		{"a new item needs a job", nothing, nothing, nobody},
		{"somebody wants a job", ask("reconcile", finished), nothing, nobody},
		{"an idle item needs nothing", finished, nothing, ""},
		{"somebody else has taken the job", ask("reconcile", underWay), nothing, ""},
		{"nobody would do what is asked for", ask("dance", finished), nothing, ""},
		{"another host, which may serve other types, has said so", toldBefore, nothing, theirs},
		{"somebody else serves the type", nothing, takenUp, ""},
		{"a plugin that starts may serve it", start, nothing, ""},
		{"one replica is enough", leave, nothing, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
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
			if got := contract.Unserved(item); got != tc.want || told != *writes || (told == 1) != (tc.want == nobody) {
				t.Errorf("expected %q, but found %q after %d writes and %d events", tc.want, got, *writes, told)
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
	b.options.UnservedGrace = func() time.Duration { return unservedGrace }
	return b
}

// Rule (deploy-items.md#deleting): Without a plugin, a deletion with `delete-without-uninstall` ends by itself.
func TestReleasedWithoutPlugin(t *testing.T) {
	for annotation, want := range map[string]bool{"true": true, "false": false} {
		t.Run(annotation, func(t *testing.T) {
			b := newUnserved(t, "no plugin here serves it")
			b.patch(`{"metadata":{"finalizers":["` + v1alpha1.Finalizer + `"],"annotations":{"` +
				v1alpha1.DeleteWithoutUninstallAnnotation + `":"` + annotation + `"}}}`)
			if err := b.admin.Delete(t.Context(), b.item); err != nil {
				t.Fatal(err)
			}
			for range 4 { // a plugin that starts may serve it; then others may, which see the condition
				if _, err := b.tryReconcile(); err != nil {
					t.Fatal(err)
				}
				b.wait(unservedGrace)
			}
			err := b.admin.Get(t.Context(), client.ObjectKeyFromObject(b.item), &v1alpha1.DeployItem{})
			if apierrors.IsNotFound(err) != want {
				t.Errorf("expected %t, but found %v", want, err)
			}
		})
	}
}
