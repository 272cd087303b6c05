package collect

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var deployItems = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "deployitems"}

func TestNeeded(t *testing.T) {
	t.Parallel()
	item := func(uid, jobID, finished string, phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
		return &v1alpha1.DeployItem{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)},
			Status:     v1alpha1.DeployItemStatus{JobID: jobID, JobIDFinished: finished, Phase: phase},
		}
	}
	const progressing, failed = v1alpha1.DeployItemPhaseProgressing, v1alpha1.DeployItemPhaseFailed
	const succeeded = v1alpha1.DeployItemPhaseSucceeded
	for reason, tc := range map[string]struct {
		jobID string
		item  *v1alpha1.DeployItem
		want  bool
	}{
		"an item that is gone needs nothing":               {"", nil, false},
		"no job of an item that is gone needs anything":    {"a", nil, false},
		"another item of the name has the name alone":      {"", item("2", "a", "a", succeeded), false},
		"the job of another item is its own":               {"a", item("2", "a", "", progressing), false},
		"it is for the life of the item":                   {"", item("1", "a", "a", succeeded), true},
		"it is for the life of the item, which is at work": {"", item("1", "b", "a", progressing), true},
		"it is for the life of an item without a job":      {"", item("1", "", "", ""), true},
		"the plugin is at work on the job":                 {"b", item("1", "b", "a", progressing), true},
		"the plugin is at work on the first job":           {"a", item("1", "a", "", progressing), true},
		"the plugin may be called for the job at any time": {"b", item("1", "b", "a", failed), true},
		"the plugin may be about to take the job over":     {"a", item("1", "b", "a", progressing), true},
		"the job has failed":                               {"b", item("1", "b", "b", failed), false},
		"the job has succeeded":                            {"b", item("1", "b", "b", succeeded), false},
		"the job is over for longer":                       {"a", item("1", "b", "b", failed), false},
		"somebody has put a finished job in its place":     {"b", item("1", "a", "a", progressing), true},
		"there may never have been a job":                  {"a", item("1", "", "", failed), true},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			if got := needed(holding("item", "1", tc.jobID), tc.item); got != tc.want {
				t.Errorf("needed is %t", got)
			}
		})
	}
}

func TestIsGone(t *testing.T) {
	t.Parallel()
	unknown := apierrors.NewGenericServerResponse(404, "get", deployItems, "a", "404 page not found", 0, true)
	for reason, tc := range map[string]struct {
		err  error
		want bool
	}{
		"it is there":                        {nil, false},
		"it is not":                          {apierrors.NewNotFound(deployItems, "a"), true},
		"the API server is down":             {errors.New("connection refused"), false},
		"nobody may say":                     {apierrors.NewForbidden(deployItems, "a", nil), false},
		"the API server knows no such thing": {unknown, false},
	} {
		if got := isGone(tc.err); got != tc.want {
			t.Errorf("%s: gone is %t", reason, got)
		}
	}
}

func TestRound(t *testing.T) {
	t.Parallel()
	w := newWorld()
	over, underWay := w.add("over", "uid-over", "job-2"), w.add("under-way", "uid-under-way", "job-2")
	finish(over)
	w.add("stays", "uid-stays", "job-2")
	w.add("anew", "uid-new", "")
	w.add("unseen", "uid-unseen", "")
	delete(w.cached.items, types.NamespacedName{Namespace: "ns", Name: "unseen"})
	w.add("behind", "uid-behind", "")
	delete(w.live.items, types.NamespacedName{Namespace: "ns", Name: "behind"})
	obsolete := []sdk.Holding{
		holding("anew", "uid-old", ""), holding("gone", "uid-gone", "job-1"), holding("over", "uid-over", "job-1"),
		holding("over", "uid-over", "job-2"),
	}
	needed := []sdk.Holding{
		holding("over", "uid-over", ""), holding("stays", "uid-stays", ""), holding("anew", "uid-new", ""),
		holding("unseen", "uid-unseen", ""), holding("behind", "uid-behind", ""),
	}
	ofJobs := []sdk.Holding{holding("under-way", "uid-under-way", "job-1"), holding("under-way", "uid-under-way", "job-2")}
	p := &fakePlugin{name: "one", kept: slices.Concat(needed, ofJobs, obsolete, obsolete)}
	c := w.collector(p)
	again, err := c.collect(t.Context(), p)
	if err != nil || !again {
		t.Fatalf("expected something to be found, but: %t, %v", again, err)
	}
	p.expect(t, "first", 1, obsolete)
	if reads := w.live.reads.Load(); reads != 5 { // anew, gone, over, under-way, unseen
		t.Errorf("expected each item in question to be read once, but there were %d reads", reads)
	}

	if again, err := c.collect(t.Context(), p); err != nil || again {
		t.Errorf("expected nothing to be left, but: %t, %v", again, err)
	}
	finish(underWay)
	if again, err := c.collect(t.Context(), p); err != nil || !again {
		t.Errorf("expected the end of the job to be seen, but: %t, %v", again, err)
	}
	if diff := cmp.Diff(needed, p.kept); diff != "" {
		t.Errorf("what is kept at last (-want +got):\n%s", diff)
	}
}

// Nothing is removed that was not looked at, and what the plugin cannot remove does not keep it from the rest.
func TestPages(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	for name, tc := range map[string]struct {
		kept    int
		collect func(w *world, holdings []sdk.Holding) error
		before  error // of the API server
		// again and failed are what comes of it, left is what is kept then, after some calls.
		again, failed bool
		left, calls   int
	}{
		"a page cannot be removed": {kept: 2*pageSize + 1, again: true, failed: true, left: pageSize, calls: 3,
			collect: func(_ *world, holdings []sdk.Holding) error {
				if holdings[0].Name == "item-0000" {
					return errors.New("it cannot")
				}
				return nil
			}},
		"the API server goes down": {kept: 2*pageSize + 1, again: true, failed: true, left: pageSize + 1, calls: 1,
			collect: func(w *world, _ []sdk.Holding) error { w.live.err = down; return nil }},
		"nothing is kept": {before: down},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.live.err = tc.before
			p := &fakePlugin{name: "one", collect: func(holdings []sdk.Holding) error { return tc.collect(w, holdings) }}
			for i := range tc.kept {
				p.kept = append(p.kept, holding(fmt.Sprintf("item-%04d", i), "uid", ""))
			}
			again, err := w.collector(p).collect(t.Context(), p)
			if again != tc.again || (err != nil) != tc.failed || len(p.kept) != tc.left || len(p.collected) != tc.calls {
				t.Errorf("%d are left after %d calls: %t, %v", len(p.kept), len(p.collected), again, err)
			}
		})
	}
}
