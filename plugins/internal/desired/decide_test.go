package desired

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// situation is the input of a decision about a Job.
type situation struct {
	item *Object
	// live is nil if there is none.
	live    *unstructured.Unstructured
	entry   managedresource.ManagedResourceStatus
	done    bool
	settled bool
}

// decided is a Job as it was applied, with its entry.
func decided(set func(*Manifest)) *situation {
	m := Manifest{Manifest: object.Manifest{Object: plugintest.Object(
		`{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ns}, spec: {parallelism: 1}}`)}}
	if set != nil {
		set(&m)
	}
	by := owner.Owner{Namespace: "ns", Name: "item", Installation: "here"}
	s := &situation{item: New(m, target.Mapping{Namespaced: true}, false, by)}
	s.live = Initial(s.item)
	s.live.SetUID("1")
	s.entry.Resource.UID, s.entry.Applied = "1", s.item.Hash(s.live)
	return s
}

// The steps from there to a situation.

func absent(s *situation)   { s.live = nil }
func unknown(s *situation)  { s.entry.Applied = "" }
func drifted(s *situation)  { s.live.Object["spec"] = fields{"parallelism": int64(7)} }
func stale(s *situation)    { s.entry.Applied = "other/hash" }
func settled(s *situation)  { s.settled = true }
func done(s *situation)     { s.done = true }
func another(s *situation)  { s.live.SetUID("2") }
func foreign(s *situation)  { setAnnotation(s.live, owner.InstallationAnnotation, "there") }
func theirs(s *situation)   { s.live.SetLabels(map[string]string{owner.Label: "other.item"}) }
func shared(s *situation)   { s.entry.Shared = "x" }
func complete(s *situation) { s.end("Complete") }

func (s *situation) end(condition string) {
	s.live.Object["status"] = fields{"conditions": []any{fields{"type": condition, "status": "True"}}}
}

func going(s *situation) {
	now := metav1.Now()
	s.live.SetDeletionTimestamp(&now)
}

// TestDecide: each state of an object has its action.
func TestDecide(t *testing.T) {
	t.Parallel()
	policy := func(p managedresource.Policy) func(*Manifest) { return func(m *Manifest) { m.Policy = p } }
	all := func(steps ...func(*situation)) []func(*situation) { return steps }
	apply := func(m *Manifest) { m.Strategy = managedresource.UpdateStrategyApply }
	forced := func(m *Manifest) { m.Strategy, m.Force = managedresource.UpdateStrategyApply, true }
	fallback, immutable := policy(managedresource.PolicyFallback), policy(managedresource.PolicyImmutable)
	doneBefore := func(s *situation) { s.entry.DoneIn = "another" }
	for name, c := range map[string]struct {
		reason string
		set    func(*Manifest)
		now    []func(*situation)
		want   Action
	}{
		"missing":       {"it is created", nil, all(absent), ActionCreate},
		"unchanged":     {"it is as it was applied", nil, nil, ActionLeave},
		"drifted":       {"it is repaired", nil, all(drifted), ActionWrite},
		"changed":       {"the manifest is another", nil, all(drifted, stale), ActionWrite},
		"without hash":  {"only a dry run shows it", nil, all(drifted, unknown), ActionCompare},
		"same anyway":   {"the write would change nothing", nil, all(stale), ActionLeave},
		"same by apply": {"managed fields may differ", apply, all(stale), ActionWrite},
		"settled":       {"this job has applied it", nil, all(drifted, settled), ActionSettled},
		"replaced":      {"this job has applied another", nil, all(settled, drifted, another), ActionWrite},
		"vanished":      {"this job has applied it", nil, all(absent, settled), ActionVanished},
		"done":          {"it has ended and is gone", nil, all(absent, done), ActionDone},
		"done before":   {"the manifest is another now", nil, all(absent, done, stale), ActionCreate},
		"done, another rendering": {
			"the manifest of a settled object does not matter", nil, all(absent, done, stale, settled), ActionDone,
		},
		"done and going": {"it is as good as gone", nil, all(done, going), ActionDone},
		"failed and going": {
			"its failure can still be seen", nil, all(done, going, func(s *situation) { s.end("Failed") }), ActionLeave,
		},
		"just complete": {
			"its completion is the reason for its deletion", nil, all(going, complete), ActionLeave,
		},
		"going":            {"it is created when it is gone", nil, all(going), ActionWait},
		"complete before":  {"it was complete for another job", nil, all(going, complete, doneBefore), ActionWait},
		"another complete": {"it is not the applied one", nil, all(going, complete, another), ActionWait},
		"foreign":          {"two control planes would write in turn", nil, all(foreign), ActionRefuse},
		"accepted": {
			"its mark is written", nil,
			all(foreign, func(s *situation) { s.item.Owner.Accepted = []string{"there"} }), ActionWrite,
		},
		"of another item":    {"the last one wins", nil, all(theirs), ActionWrite},
		"fallback, ours":     {"it is managed", fallback, all(drifted), ActionWrite},
		"fallback, theirs":   {"it is left to them", fallback, all(theirs), ActionSkip},
		"fallback, foreign":  {"it is left to them", fallback, all(foreign), ActionSkip},
		"immutable, drifted": {"it is written once", immutable, all(drifted), ActionLeave},
		"keep":               {"it is updated", policy(managedresource.PolicyKeep), all(drifted), ActionWrite},
		"shared, forced":     {"the fields shared before have to go", forced, all(shared), ActionWrite},
		"shared":             {"they stay", apply, all(shared), ActionLeave},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := decided(c.set)
			for _, step := range c.now {
				step(s)
			}
			p := Progress{
				Done:    func(managedresource.ManagedResourceStatus) bool { return s.done },
				Settled: func(object.Key) bool { return s.settled },
			}
			got := p.Decide(s.item, s.entry, s.live)
			if got.Action != c.want {
				t.Fatalf("%s: expected the action %d, but found %+v", c.reason, c.want, got)
			}
			// It gets a hash as it is, unless its policy leaves it as it may be.
			leaves := got.Action == ActionLeave || got.Action == ActionSettled
			if (got.Hash != "") != (leaves && name != "immutable, drifted") {
				t.Errorf("%s: a hash without reason, or none: %+v", c.reason, got)
			}
			if (got.Why != "") != (got.Action == ActionSkip || got.Action == ActionWait) {
				t.Errorf("%s: expected a reason to skip or to wait, and only for these, but found %+v", c.reason, got)
			}
			var problem *sdk.Error
			reason := map[Action]string{ActionRefuse: ReasonOwnedElsewhere, ActionVanished: ReasonVanished}[got.Action]
			if errors.As(got.Err, &problem) != (reason != "") || problem != nil && problem.Reason != reason {
				t.Errorf("%s: expected the reason %q, but found %+v", c.reason, reason, got)
			}
		})
	}
}

// TestDecideWithoutProgress: the zero value knows of no other calls.
func TestDecideWithoutProgress(t *testing.T) {
	t.Parallel()
	s := decided(nil)
	if got := (Progress{}).Decide(s.item, s.entry, nil); got.Action != ActionCreate {
		t.Errorf("expected the missing object to be created, but found %+v", got)
	}
	if got := (Progress{}).Decide(s.item, s.entry, s.live); got.Action != ActionLeave || got.Hash != s.entry.Applied {
		t.Errorf("expected the object to be left with its hash, but found %+v", got)
	}
}
