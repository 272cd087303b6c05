package collect

import (
	"context"
	"errors"
	"fmt"
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

func missing(name types.NamespacedName) error { return apierrors.NewNotFound(deployItems, name.Name) }

func TestNeeded(t *testing.T) {
	t.Parallel()
	item := func(uid, jobID, finished string, phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
		return &v1alpha1.DeployItem{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)},
			Status:     v1alpha1.DeployItemStatus{JobID: jobID, JobIDFinished: finished, Phase: phase},
		}
	}
	const progressing, failed, succeeded = v1alpha1.DeployItemPhaseProgressing, v1alpha1.DeployItemPhaseFailed, v1alpha1.DeployItemPhaseSucceeded
	for name, tc := range map[string]struct {
		reason string
		jobID  string
		item   *v1alpha1.DeployItem
		want   bool
	}{
		"gone":                 {reason: "nobody is there to need it", want: false},
		"gone, of a job":       {reason: "nobody is there to need it", jobID: "a", want: false},
		"another item":         {reason: "it has the name and nothing else", item: item("2", "a", "a", succeeded), want: false},
		"another item at work": {reason: "its job is its own", jobID: "a", item: item("2", "a", "", progressing), want: false},

		"there":                 {reason: "it is for the life of the item", item: item("1", "a", "a", succeeded), want: true},
		"there, and at work":    {reason: "it is for the life of the item", item: item("1", "b", "a", progressing), want: true},
		"there, without a job":  {reason: "it is for the life of the item", item: item("1", "", "", ""), want: true},
		"job under way":         {reason: "the plugin is at work on it", jobID: "b", item: item("1", "b", "a", progressing), want: true},
		"first job under way":   {reason: "the plugin is at work on it", jobID: "a", item: item("1", "a", "", progressing), want: true},
		"job not picked up":     {reason: "the plugin may be called at any time", jobID: "b", item: item("1", "b", "a", failed), want: true},
		"before one under way":  {reason: "the plugin may be about to take it over", jobID: "a", item: item("1", "b", "a", progressing), want: true},
		"after it has ended":    {reason: "it is over", jobID: "b", item: item("1", "b", "b", failed), want: false},
		"succeeded":             {reason: "it is over", jobID: "b", item: item("1", "b", "b", succeeded), want: false},
		"before one that ended": {reason: "it is over for longer", jobID: "a", item: item("1", "b", "b", failed), want: false},
		"replaced":              {reason: "somebody has put a finished job in its place, and it may be in a call", jobID: "b", item: item("1", "a", "a", progressing), want: true},
		"no job":                {reason: "there may never have been one", jobID: "a", item: item("1", "", "", failed), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := needed(holding("item", "1", tc.jobID), tc.item); got != tc.want {
				t.Errorf("%s: needed is %t", tc.reason, got)
			}
		})
	}
}

func TestIsGone(t *testing.T) {
	t.Parallel()
	for reason, tc := range map[string]struct {
		err  error
		want bool
	}{
		"it is there":                        {nil, false},
		"it is not":                          {apierrors.NewNotFound(deployItems, "a"), true},
		"the API server is down":             {errors.New("connection refused"), false},
		"nobody may say":                     {apierrors.NewForbidden(deployItems, "a", nil), false},
		"the API server knows no such thing": {apierrors.NewGenericServerResponse(404, "get", deployItems, "a", "404 page not found", 0, true), false},
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
	w.finish(over)
	w.add("stays", "uid-stays", "job-2")
	w.add("anew", "uid-new", "")
	unseen := w.add("unseen", "uid-unseen", "")
	delete(w.cached, types.NamespacedName{Namespace: "ns", Name: unseen.Name})
	behind := w.add("behind", "uid-behind", "")
	delete(w.live, types.NamespacedName{Namespace: "ns", Name: behind.Name})
	p := &fakePlugin{name: "one", kept: []sdk.Holding{
		holding("under-way", "uid-under-way", "job-1"), holding("under-way", "uid-under-way", "job-2"),
		holding("over", "uid-over", "job-1"), holding("over", "uid-over", "job-2"), holding("over", "uid-over", ""),
		holding("stays", "uid-stays", ""), holding("anew", "uid-old", ""), holding("anew", "uid-new", ""), holding("gone", "uid-gone", "job-1"),
		holding("gone", "uid-gone", "job-1"), holding("unseen", "uid-unseen", ""), holding("behind", "uid-behind", ""),
	}}
	c := w.collector(p)
	again, err := c.collect(t.Context(), p)
	if err != nil || !again {
		t.Fatalf("expected something to be found, but: %t, %v", again, err)
	}
	p.expect(t, "first", 1, []sdk.Holding{
		holding("anew", "uid-old", ""), holding("gone", "uid-gone", "job-1"), holding("over", "uid-over", "job-1"), holding("over", "uid-over", "job-2"),
	})
	if reads := w.timesRead(); reads != 5 { // anew, gone, over, under-way, unseen
		t.Errorf("expected each item in question to be read once, but there were %d reads", reads)
	}

	if again, err := c.collect(t.Context(), p); err != nil || again {
		t.Errorf("expected nothing to be left, but: %t, %v", again, err)
	}
	w.finish(underWay)
	if again, err := c.collect(t.Context(), p); err != nil || !again {
		t.Errorf("expected the end of the job to be seen, but: %t, %v", again, err)
	}
	want := []sdk.Holding{
		holding("over", "uid-over", ""), holding("stays", "uid-stays", ""), holding("anew", "uid-new", ""),
		holding("unseen", "uid-unseen", ""), holding("behind", "uid-behind", ""),
	}
	if diff := cmp.Diff(want, p.kept); diff != "" {
		t.Errorf("what is kept at last (-want +got):\n%s", diff)
	}
}

// Nothing is removed that was not looked at, and what the plugin cannot remove does not keep it from the rest.
func TestPages(t *testing.T) {
	t.Parallel()
	fill := func(p *fakePlugin) {
		for i := range 2*pageSize + 1 {
			p.kept = append(p.kept, holding(fmt.Sprintf("item-%04d", i), "uid", ""))
		}
	}
	t.Run("removed", func(t *testing.T) {
		t.Parallel()
		p := &fakePlugin{name: "one"}
		fill(p)
		p.collect = func(_ context.Context, holdings []sdk.Holding) error {
			if holdings[0].Name == "item-0000" {
				return errors.New("it cannot")
			}
			p.remove(holdings)
			return nil
		}
		again, err := newWorld().collector(p).collect(t.Context(), p)
		if !again || err == nil || len(p.collected) != 3 || len(p.kept) != pageSize {
			t.Errorf("expected two of three pages to be removed, but %d are left after %d calls: %t, %v", len(p.kept), len(p.collected), again, err)
		}
	})
	t.Run("API error", func(t *testing.T) {
		t.Parallel()
		p, w := &fakePlugin{name: "one"}, newWorld()
		fill(p)
		p.collect = func(_ context.Context, holdings []sdk.Holding) error {
			p.remove(holdings)
			w.fail(errors.New("connection refused"))
			return nil
		}
		again, err := w.collector(p).collect(t.Context(), p)
		if !again || err == nil || len(p.collected) != 1 || len(p.kept) != pageSize+1 {
			t.Errorf("expected the round to end after a page, but %d are left after %d calls: %t, %v", len(p.kept), len(p.collected), again, err)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		p, w := &fakePlugin{name: "one"}, newWorld()
		w.fail(errors.New("connection refused"))
		if again, err := w.collector(p).collect(t.Context(), p); again || err != nil || p.collected != nil {
			t.Errorf("expected nothing to happen while nothing is kept, but: %t, %v, %v", again, err, p.collected)
		}
	})
}
