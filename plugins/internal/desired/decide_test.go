package desired

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
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
	m := Manifest{Manifest: object.Manifest{Object: of("batch/v1", "Job", fields{
		"metadata": fields{"name": "a", "namespace": "ns"}, "spec": fields{"parallelism": int64(1)},
	})}}
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

func (s *situation) absent()               { s.live = nil }
func (s *situation) unknown()              { s.entry.Applied = "" }
func (s *situation) drifted()              { s.live.Object["spec"] = fields{"parallelism": int64(7)} }
func (s *situation) stale()                { s.entry.Applied = "other/hash" }
func (s *situation) mark(installation any) { s.annotate(owner.InstallationAnnotation, installation) }
func (s *situation) annotate(key string, value any) {
	s.live.Object["metadata"].(fields)["annotations"] = fields{key: value}
}

func (s *situation) label(value string) {
	s.live.SetLabels(map[string]string{owner.Label: value})
}

func (s *situation) delete() {
	now := metav1.Now()
	s.live.SetDeletionTimestamp(&now)
}

func (s *situation) end(condition string) {
	s.live.Object["status"] = fields{"conditions": []any{fields{"type": condition, "status": "True"}}}
}

// TestDecide: each state of an object has its action.
func TestDecide(t *testing.T) {
	t.Parallel()
	policy := func(p managedresource.Policy) func(*Manifest) { return func(m *Manifest) { m.Policy = p } }
	strategy := func(s managedresource.UpdateStrategy) func(*Manifest) {
		return func(m *Manifest) { m.Strategy = s }
	}
	all := func(steps ...func(*situation)) []func(*situation) { return steps }
	settle := func(s *situation) { s.settled = true }
	complete := func(s *situation) { s.done = true }
	for name, c := range map[string]struct {
		reason string
		set    func(*Manifest)
		now    []func(*situation)
		want   Action
		// forgotten: it gets no hash; otherwise one as it is, with ActionLeave.
		forgotten bool
	}{
		"missing":       {reason: "it is created", now: all((*situation).absent), want: ActionCreate},
		"unchanged":     {reason: "it is as it was applied", want: ActionLeave},
		"drifted":       {reason: "it is repaired", now: all((*situation).drifted), want: ActionWrite},
		"changed":       {reason: "the manifest is another", now: all((*situation).drifted, (*situation).stale), want: ActionWrite},
		"without hash":  {reason: "only a dry run shows it", now: all((*situation).drifted, (*situation).unknown), want: ActionCompare},
		"same anyway":   {reason: "the write would change nothing", now: all((*situation).stale), want: ActionLeave},
		"same by apply": {"managed fields may differ", strategy(managedresource.UpdateStrategyApply), all((*situation).stale), ActionWrite, false},
		"settled":       {reason: "this job has applied it", now: all((*situation).drifted, settle), want: ActionSettled},
		"replaced":      {reason: "this job has applied another", now: all(settle, (*situation).drifted, func(s *situation) { s.live.SetUID("2") }), want: ActionWrite},
		"vanished":      {reason: "this job has applied it", now: all((*situation).absent, settle), want: ActionVanished},
		"done":          {reason: "it has ended and is gone", now: all((*situation).absent, complete), want: ActionDone},
		"done before":   {reason: "the manifest is another now", now: all((*situation).absent, complete, (*situation).stale), want: ActionCreate},
		"done, another rendering": {
			reason: "the manifest of a settled object does not matter", want: ActionDone,
			now: all((*situation).absent, complete, (*situation).stale, settle),
		},
		"done and going":   {reason: "it is as good as gone", now: all(complete, (*situation).delete), want: ActionDone},
		"failed and going": {reason: "its failure can still be seen", now: all(complete, (*situation).delete, func(s *situation) { s.end("Failed") }), want: ActionLeave},
		"just complete":    {reason: "its completion is the reason for its deletion", now: all((*situation).delete, func(s *situation) { s.end("Complete") }), want: ActionLeave},
		"going":            {reason: "it is created when it is gone", now: all((*situation).delete), want: ActionWait},
		"complete before": {
			reason: "it was complete for another job", want: ActionWait,
			now: all((*situation).delete, func(s *situation) { s.end("Complete"); s.entry.DoneIn = "another" }),
		},
		"another complete": {
			reason: "it is not the applied one", want: ActionWait,
			now: all((*situation).delete, func(s *situation) { s.end("Complete"); s.live.SetUID("2") }),
		},
		"foreign":            {reason: "two control planes would write in turn", now: all(func(s *situation) { s.mark("there") }), want: ActionRefuse},
		"accepted":           {reason: "its mark is written", now: all(func(s *situation) { s.mark("there"); s.item.Owner.Accepted = []string{"there"} }), want: ActionWrite},
		"of another item":    {reason: "the last one wins", now: all(func(s *situation) { s.label("other.item") }), want: ActionWrite},
		"fallback, ours":     {"it is managed", policy(managedresource.PolicyFallback), all((*situation).drifted), ActionWrite, false},
		"fallback, theirs":   {"it is left to them", policy(managedresource.PolicyFallback), all(func(s *situation) { s.label("other.item") }), ActionSkip, false},
		"fallback, foreign":  {"it is left to them", policy(managedresource.PolicyFallback), all(func(s *situation) { s.mark("there") }), ActionSkip, false},
		"immutable, drifted": {"it is written once", policy(managedresource.PolicyImmutable), all((*situation).drifted), ActionLeave, true},
		"keep":               {"it is updated", policy(managedresource.PolicyKeep), all((*situation).drifted), ActionWrite, false},
		"shared, forced": {
			"the fields shared before have to go",
			func(m *Manifest) { m.Strategy, m.Force = managedresource.UpdateStrategyApply, true },
			all(func(s *situation) { s.entry.Shared = "x" }), ActionWrite, false,
		},
		"shared": {
			"they stay", strategy(managedresource.UpdateStrategyApply),
			all(func(s *situation) { s.entry.Shared = "x" }), ActionLeave, false,
		},
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
			leaves := got.Action == ActionLeave || got.Action == ActionSettled
			if (got.Hash != "") != (leaves && !c.forgotten) {
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
