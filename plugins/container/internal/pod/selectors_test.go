package pod

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// parts are all that an object may be good for.
var parts = []string{
	PartPod, PartKept, PartInput, PartAccess, PartPull, PartRights, PartResult, PartState,
}

// runs are those of three deploy items. The first two are of one installation; the third has the name of the first.
func runs() map[string]Identity {
	a := Identity{
		Installation: "here", Namespace: "team", Name: "a", UID: "a-uid", JobID: "1",
		Operation: v1alpha1.OperationReconcile,
	}
	a2, deleted, b, other := a, a, a, a
	a2.JobID = "2"
	deleted.JobID, deleted.Operation = "2", v1alpha1.OperationDelete
	b.Name, b.UID = "b", "b-uid"
	other.Installation, other.UID = "", "other-uid"
	return map[string]Identity{"a1": a, "a2": a2, "a2 deleted": deleted, "b1": b, "other": other}
}

// population are the labels of objects of all parts of all runs, by names such as "a1 pod", and of some of others.
func population() map[string]labels.Set {
	all := map[string]labels.Set{
		"stranger": {}, "stranger with labels": {PartLabel: PartInput, RunLabel: "x"},
		"landscaper's state": {
			UpstreamTypeLabel: UpstreamTypeState, UpstreamItemName: "a", UpstreamItemNamespace: "team",
		},
		"landscaper's state of another": {
			UpstreamTypeLabel: UpstreamTypeState, UpstreamItemName: "a", UpstreamItemNamespace: "others",
		},
	}
	for name, i := range runs() {
		for _, part := range parts {
			all[name+" "+part] = i.Labels(part)
		}
	}
	return all
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	all := runs()
	uid, a1, a2 := all["a1"].UID, all["a1"].RunName(), all["a2"].RunName()
	of := func(run string, parts ...string) (names []string) {
		for _, part := range parts {
			names = append(names, run+" "+part)
		}
		return names
	}
	ofA := func(parts ...string) []string {
		return slices.Concat(of("a1", parts...), of("a2", parts...), of("a2 deleted", parts...))
	}
	temporary := []string{PartPod, PartInput, PartAccess, PartPull, PartRights}
	for name, c := range map[string]struct {
		reason    string
		selectors []Selector
		want      []string
	}{
		"item": {
			reason: "a deploy item that is deleted leaves nothing", selectors: []Selector{OfItem(uid)}, want: ofA(parts...),
		},
		"run": {
			reason: "each job and operation has its own", selectors: []Selector{OfRun(uid, a2)}, want: of("a2", parts...),
		},
		"run of other": {reason: "a name alone is not enough", selectors: []Selector{OfRun(all["b1"].UID, a2)}},
		"installation": {
			reason: "others use the same host cluster", selectors: []Selector{OfInstallation("here")},
			want: slices.Concat(ofA(parts...), of("b1", parts...)),
		},
		"no installation": {
			reason: "a host may not know its own", selectors: []Selector{OfInstallation("")}, want: of("other", parts...),
		},
		"temporary": {
			reason: "result and state are needed, and a kept Pod is wanted", selectors: []Selector{Temporary(uid, a1)},
			want: of("a1", temporary...),
		},
		"kept": {
			reason: "the last Pod is the one to look at", selectors: []Selector{KeptPods(uid, a2)},
			want: slices.Concat(of("a1", PartKept), of("a2 deleted", PartKept)),
		},
		"result": {
			reason: "it is wanted until there is another job", selectors: []Selector{ResultOf(uid, a1)},
			want: of("a1", PartResult),
		},
		"obsolete with a new state": {
			reason: "the one before is of no use any more", selectors: Obsolete(uid,
				&v1alpha1.Run{Name: a2, Restored: &v1alpha1.State{ID: a1}}, &v1alpha1.State{ID: a2}),
			want: slices.Concat(of("a2", temporary...), of("a1", PartState)),
		},
		"obsolete with the old state": {
			reason: "what was uploaded of another one is not complete", selectors: Obsolete(uid,
				&v1alpha1.Run{Name: a2, Restored: &v1alpha1.State{ID: a1}}, &v1alpha1.State{ID: a1}),
			want: slices.Concat(of("a2", temporary...), of("a2", PartState)),
		},
		"obsolete without a state": {
			reason: "a run that leaves no state wants none", selectors: Obsolete(uid,
				&v1alpha1.Run{Name: a2, Restored: &v1alpha1.State{ID: a1}}, nil),
			want: slices.Concat(of("a2", temporary...), of("a1", PartState), of("a2", PartState)),
		},
		"obsolete with Landscaper's state": {
			reason: "it is known by its names", selectors: Obsolete(uid,
				&v1alpha1.Run{Name: a2, Restored: &v1alpha1.State{Secrets: []string{"x"}}}, &v1alpha1.State{ID: a2}),
			want: of("a2", temporary...),
		},
		"obsolete of the first run": {
			reason: "it is the only one", selectors: Obsolete(uid, &v1alpha1.Run{Name: a1}, &v1alpha1.State{
				ID: a1,
			}), want: of("a1", temporary...),
		},
		"left by upstream": {
			reason: "those of this deployer are known by other labels", selectors: []Selector{
				all["a1"].LeftByUpstream(),
			}, want: []string{"landscaper's state"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(sorted(c.want), selected(t, c.selectors...)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

// selected are the names of those of the population that at least one of the selectors selects, as the API server reads
// them.
func selected(t *testing.T, selectors ...Selector) []string {
	t.Helper()
	var found []string
	for _, s := range selectors {
		parsed, err := labels.Parse(string(s))
		if err != nil {
			t.Fatal(err)
		}
		for name, set := range population() {
			if parsed.Matches(set) && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	return sorted(found)
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// TestNothingIsLost: what is removed when a run is over, when there is another one, and when that is over is all that
// there is of a run.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	all := runs()
	uid, name := all["a1"].UID, all["a1"].RunName()
	const next = "newer"
	kept := &v1alpha1.State{ID: name}
	selectors := Obsolete(uid, &v1alpha1.Run{Name: name}, kept)
	selectors = append(selectors, ResultOf(uid, name))
	selectors = append(selectors, Obsolete(uid, &v1alpha1.Run{Name: next, Restored: kept}, nil)...)
	found := selected(t, append(selectors, KeptPods(uid, next))...)
	for _, part := range parts {
		if !slices.Contains(found, "a1 "+part) {
			t.Errorf("nothing removes the %s of an older run", part)
		}
	}
}
