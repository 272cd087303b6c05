package pod

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// parts are all that an object may be good for.
var parts = []string{PartPod, PartKept, PartInput, PartAccess, PartPull, PartRights, PartResult, PartState}

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
	// begun is a run with an older state.
	begun := &v1alpha1.Run{Name: a2, Restored: &v1alpha1.State{ID: a1}}
	upstream := &v1alpha1.Run{Name: a2, Restored: &v1alpha1.State{Secrets: []string{"x"}}}
	only := func(s Selector) []Selector { return []Selector{s} }
	for _, c := range []struct {
		name      string
		selectors []Selector
		want      []string
	}{
		{"item", only(OfItem(uid)), ofA(parts...)},
		{"run", only(OfRun(uid, a2)), of("a2", parts...)},
		{"run of other", only(OfRun(all["b1"].UID, a2)), nil},
		{"installation", only(OfInstallation("here")), slices.Concat(ofA(parts...), of("b1", parts...))},
		{"no installation", only(OfInstallation("")), of("other", parts...)},
		{"temporary", only(Temporary(uid, a1)), of("a1", temporary...)},
		{"kept", only(KeptPods(uid, a2)), slices.Concat(of("a1", PartKept), of("a2 deleted", PartKept))},
		{"result", only(ResultOf(uid, a1)), of("a1", PartResult)},
		{
			"obsolete with a new state", Obsolete(uid, begun, &v1alpha1.State{ID: a2}),
			slices.Concat(of("a2", temporary...), of("a1", PartState)),
		},
		// The upload of the other one is not complete.
		{
			"obsolete with the old state", Obsolete(uid, begun, &v1alpha1.State{ID: a1}),
			slices.Concat(of("a2", temporary...), of("a2", PartState)),
		},
		{
			"obsolete without a state", Obsolete(uid, begun, nil),
			slices.Concat(of("a2", temporary...), of("a1", PartState), of("a2", PartState)),
		},
		// It has other labels.
		{
			"obsolete with Landscaper's state", Obsolete(uid, upstream, &v1alpha1.State{ID: a2}), of("a2", temporary...),
		},
		{
			"obsolete of the first run", Obsolete(uid, &v1alpha1.Run{Name: a1}, &v1alpha1.State{ID: a1}),
			of("a1", temporary...),
		},
		{"left by upstream", only(all["a1"].LeftByUpstream()), []string{"landscaper's state"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(sorted(c.want), selected(t, c.selectors...)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
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
