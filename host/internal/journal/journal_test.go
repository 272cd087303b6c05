package journal_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/journal"
	"github.com/pergola-deploy/pergola/host/internal/observe"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func after(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func jobOf(name, id string) observe.Job {
	return observe.Job{
		Plugin: "helm", Item: types.NamespacedName{Namespace: "ns", Name: name}, UID: types.UID("uid-" + name), ID: id, Operation: "Reconcile",
	}
}

func done(of observe.Kind, name, result string) observe.Done {
	return observe.Done{Work: observe.Work{Of: of, Name: name}, Result: result, Took: time.Second}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	type told struct {
		second int
		event  observe.Event
	}
	cases := map[string]struct {
		reason string
		told   []told
		want   journal.Job
	}{
		"succeeded": {
			reason: "the timeline has what has happened, and no reads",
			told: []told{
				{1, done(observe.KindRequest, "GET deployitems", "200")},
				{1, done(observe.KindRequest, "PATCH deployitems/status", "200")},
				{1, observe.PickedUp{Triggered: after(0)}},
				{2, observe.Progress{Step: "Install", Text: "installing"}},
				{3, done(observe.KindCall, "Reconcile", "done")},
				{4, observe.Ended{Phase: v1alpha1.DeployItemPhaseSucceeded, Triggered: after(0)}},
			},
			want: journal.Job{
				Triggered: after(0), Began: after(1), Ended: after(4), Phase: "Succeeded", Calls: 1, Requests: 2,
				Entries: []journal.Entry{
					{Time: after(1), Kind: "Request", Message: "PATCH deployitems/status: 200", Took: time.Second, Times: 1},
					{Time: after(1), Kind: "PickedUp", Times: 1},
					{Time: after(2), Kind: "Progress", Message: "installing", Times: 1},
					{Time: after(3), Kind: "Call", Message: "Reconcile: done", Took: time.Second, Times: 1},
					{Time: after(4), Kind: "Ended", Message: "Succeeded", Times: 1},
				},
			},
		},
		"polls": {
			reason: "what is the same each time has one entry",
			told: []told{
				{1, done(observe.KindCall, "Reconcile", "inProgress")},
				{1, observe.Waits{For: "the pod", Until: after(6)}},
				{6, done(observe.KindCall, "Reconcile", "inProgress")},
				{6, observe.Waits{For: "the pod", Until: after(11)}},
			},
			want: journal.Job{
				Began: after(1), WaitingFor: "the pod", Until: after(11), Calls: 2,
				Entries: []journal.Entry{
					{Time: after(1), Kind: "Call", Message: "Reconcile: inProgress", Took: 2 * time.Second, Times: 2, Last: after(6)},
					{Time: after(1), Kind: "Waits", Message: "the pod", Times: 2, Last: after(6)},
				},
			},
		},
		"failed": {
			reason: "the last error is that of the end, cut to what is remembered of a text",
			told: []told{
				{1, observe.PickedUp{Triggered: after(0), Queued: true}},
				{3, observe.Turn{Waited: 2 * time.Second}},
				{4, observe.Retries{Error: observe.Error{Reason: "Refused", Text: "no"}, Until: after(5)}},
				{5, observe.Ended{Phase: v1alpha1.DeployItemPhaseFailed, Triggered: after(0), Error: &observe.Error{
					Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout}, Reason: "Late", Text: strings.Repeat("ä", 20),
				}}},
			},
			want: journal.Job{
				Triggered: after(0), Began: after(1), Ended: after(5), Phase: "Failed", Retries: 1,
				LastError: &journal.Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout}, Reason: "Late", Message: strings.Repeat("ä", 15) + "…"},
				Entries: []journal.Entry{
					{Time: after(1), Kind: "PickedUp", Message: "waits for a free worker", Times: 1},
					{Time: after(3), Kind: "Turn", Message: "there is a free worker", Took: 2 * time.Second, Times: 1},
					{Time: after(4), Kind: "Retries", Message: "no", Times: 1},
					{Time: after(5), Kind: "Ended", Message: "Failed: " + strings.Repeat("ä", 11) + "…", Times: 1},
				},
			},
		},
		"unlocked": {
			reason: "what comes after the end changes nothing about it",
			told: []told{
				{1, observe.Ended{Phase: v1alpha1.DeployItemPhaseSucceeded}},
				{2, done(observe.KindRequest, "PATCH syncobjects", "200")},
			},
			want: journal.Job{Began: after(1), Ended: after(1), Phase: "Succeeded", Requests: 1, Entries: []journal.Entry{
				{Time: after(1), Kind: "Ended", Message: "Succeeded", Times: 1},
				{Time: after(2), Kind: "Request", Message: "PATCH syncobjects: 200", Took: time.Second, Times: 1},
			}},
		},
		"set again": {
			reason: "a job that goes on has not ended",
			told: []told{
				{1, observe.Ended{Phase: v1alpha1.DeployItemPhaseSucceeded}},
				{2, observe.PickedUp{}},
			},
			want: journal.Job{Began: after(1), Entries: []journal.Entry{
				{Time: after(1), Kind: "Ended", Message: "Succeeded", Times: 1},
				{Time: after(2), Kind: "PickedUp", Times: 1},
			}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := journal.New(journal.Limits{Message: 31})
			for _, told := range tc.told {
				j.Observe(jobOf("a", "1"), after(told.second), told.event)
			}
			tc.want.Plugin, tc.want.Namespace, tc.want.Name, tc.want.UID = "helm", "ns", "a", "uid-a"
			tc.want.JobID, tc.want.Operation = "1", "Reconcile"
			if diff := cmp.Diff([]journal.Job{tc.want}, j.Jobs("", "")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestJobsThatGoOnElsewhere are not under way here.
func TestJobsThatGoOnElsewhere(t *testing.T) {
	t.Parallel()
	j := journal.New(journal.Limits{})
	item := jobOf("a", "")
	j.Observe(item, start, observe.Left{Why: "the lock was lost"}) // of which nothing is known
	j.Observe(jobOf("a", "1"), after(1), observe.PickedUp{})
	j.Observe(jobOf("b", "1"), after(1), observe.PickedUp{})
	j.Observe(jobOf("a", "1"), after(2), observe.Waits{For: "the pod", Until: after(60)})
	j.Observe(item, after(3), observe.Left{Why: "the lock was lost"})
	left := j.Jobs("ns", "a")[0]
	if last := left.Entries[len(left.Entries)-1]; left.Ended != after(3) || left.Phase != "" || left.WaitingFor != "" || last.Message != "the lock was lost" {
		t.Errorf("lost: %+v", left)
	}
	j.Observe(jobOf("a", "1"), after(4), observe.TakenOver{From: "other"})
	if back := j.Jobs("ns", "a")[0]; !back.Ended.IsZero() {
		t.Errorf("back again: %+v", back)
	}
	j.Observe(jobOf("a", "2"), after(5), observe.PickedUp{})
	if replaced := j.Jobs("ns", "a")[1]; replaced.JobID != "1" || replaced.Ended != after(5) || replaced.Phase != "" {
		t.Errorf("replaced: %+v", replaced)
	}
	if other := j.Jobs("ns", "b")[0]; !other.Ended.IsZero() {
		t.Errorf("of another item: %+v", other)
	}
}

func names(jobs []journal.Job) []string {
	list := []string{}
	for _, job := range jobs {
		list = append(list, job.Name+job.JobID)
	}
	return list
}

func TestWhichJobs(t *testing.T) {
	t.Parallel()
	j := journal.New(journal.Limits{})
	j.Observe(observe.Job{Plugin: "helm"}, start, observe.PickedUp{}) // of a look that has come to no job
	for i, name := range []string{"a", "b", "a"} {
		j.Observe(jobOf(name, fmt.Sprint(i)), after(i), observe.PickedUp{})
	}
	for _, tc := range []struct {
		reason, namespace, name string
		want                    []string
	}{
		{"all, newest first", "", "", []string{"a2", "b1", "a0"}},
		{"of a namespace", "ns", "", []string{"a2", "b1", "a0"}},
		{"of an item", "ns", "a", []string{"a2", "a0"}},
		{"of a name", "", "b", []string{"b1"}},
		{"of nobody", "other", "a", []string{}},
	} {
		if diff := cmp.Diff(tc.want, names(j.Jobs(tc.namespace, tc.name))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func TestOverview(t *testing.T) {
	t.Parallel()
	j := journal.New(journal.Limits{})
	for i, name := range []string{"a", "b", "a"} {
		j.Observe(jobOf(name, fmt.Sprint(i)), after(i), observe.Waits{For: "the pod"})
	}
	all, want := j.Overview(), j.Jobs("", "")
	for i := range want {
		want[i].Entries = nil
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("the same jobs without timelines (-want +got):\n%s", diff)
	}
	if len(j.Jobs("ns", "b")[0].Entries) != 1 {
		t.Error("what is remembered has lost its timeline")
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	end := observe.Ended{Phase: v1alpha1.DeployItemPhaseSucceeded}
	t.Run("jobs", func(t *testing.T) {
		t.Parallel()
		j := journal.New(journal.Limits{Jobs: 1, Open: 3})
		j.Observe(jobOf("a", "1"), start, observe.PickedUp{})
		j.Observe(jobOf("b", "2"), start, end)
		j.Observe(jobOf("c", "3"), start, end)
		j.Observe(jobOf("d", "4"), start, observe.PickedUp{})
		j.Observe(jobOf("e", "5"), start, observe.PickedUp{})
		if diff := cmp.Diff([]string{"e5", "d4", "c3", "a1"}, names(j.Jobs("", ""))); diff != "" {
			t.Errorf("those under way stay, however many have ended since (-want +got):\n%s", diff)
		}
		j.Observe(jobOf("a", "1"), after(60), observe.Waits{For: "the pod"})
		if waits := j.Jobs("ns", "a")[0]; waits.Began != start {
			t.Errorf("one that has waited longest goes on from where it was, but has begun at %s", waits.Began)
		}
		j.Observe(jobOf("f", "6"), start, observe.PickedUp{})
		if diff := cmp.Diff([]string{"f6", "e5", "d4", "c3"}, names(j.Jobs("", ""))); diff != "" {
			t.Errorf("but not for ever (-want +got):\n%s", diff)
		}
		for _, again := range []observe.Event{end, observe.TakenOver{From: "other"}, end} {
			j.Observe(jobOf("d", "4"), start, again)
		}
		j.Observe(jobOf("g", "7"), start, observe.PickedUp{})
		if diff := cmp.Diff([]string{"g7", "f6", "e5", "d4"}, names(j.Jobs("", ""))); diff != "" {
			t.Errorf("one that has ended makes room (-want +got):\n%s", diff)
		}
	})
	t.Run("entries", func(t *testing.T) {
		t.Parallel()
		j := journal.New(journal.Limits{Entries: 8})
		for i := range 100 {
			j.Observe(jobOf("a", "1"), after(i), observe.Progress{Text: fmt.Sprint(i)})
		}
		var got []string
		job := j.Jobs("", "")[0]
		for _, e := range job.Entries {
			got = append(got, e.Message)
		}
		if diff := cmp.Diff([]string{"0", "1", "94", "95", "96", "97", "98", "99"}, got); diff != "" || job.LeftOut != 92 || job.LeftOutAfter != 2 {
			t.Errorf("%d left out after %d (-want +got):\n%s", job.LeftOut, job.LeftOutAfter, diff)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		j := journal.New(journal.Limits{Bytes: 1000, Message: 100})
		for i := range 100 {
			for n := range 3 {
				j.Observe(jobOf("a", fmt.Sprint(i)), start, observe.Progress{Text: fmt.Sprint(n, strings.Repeat("x", 99))})
			}
		}
		if diff := cmp.Diff([]string{"a99", "a98", "a97"}, names(j.Jobs("", ""))); diff != "" {
			t.Errorf("jobs of 300 bytes (-want +got):\n%s", diff)
		}
	})
	t.Run("bytes under way", func(t *testing.T) {
		t.Parallel()
		j := journal.New(journal.Limits{Bytes: 1000, Message: 100})
		for i := range 4 {
			for n := range 3 {
				j.Observe(jobOf(fmt.Sprint(i), "1"), after(i), observe.Progress{Text: fmt.Sprint(n, strings.Repeat("x", 90))})
			}
		}
		jobs := j.Jobs("", "")
		if len(jobs) != 4 {
			t.Fatalf("those under way stay, but found %v", names(jobs))
		}
		if oldest := jobs[3]; oldest.LeftOut != 3 || len(oldest.Entries) != 0 || oldest.Began != start || oldest.WaitingFor == "" || len(jobs[2].Entries) != 3 {
			t.Errorf("only the timeline of the oldest one goes: %+v", jobs)
		}
	})
}

// What Jobs returns belongs to the caller, while others write.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	j := journal.New(journal.Limits{Jobs: 10, Entries: 5})
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := range 200 {
				j.Observe(jobOf("a", fmt.Sprint(i%20)), start, observe.Progress{Text: fmt.Sprint(n, i)})
			}
		})
		all.Go(func() {
			for range 50 {
				for _, job := range j.Jobs("", "") {
					for i := range job.Entries {
						job.Entries[i].Message = ""
					}
				}
			}
		})
	}
	all.Wait()
	for _, job := range j.Jobs("", "") {
		for _, e := range job.Entries {
			if e.Message == "" {
				t.Fatal("somebody else has changed what is remembered")
			}
		}
	}
}
