package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// finishedItems are the items that are there when a host starts.
const finishedItems = 2000

// finish writes the status of an item whose job has succeeded.
func finish(ctx context.Context, item *v1alpha1.DeployItem) error {
	now := v1alpha1.Now()
	item.Status = v1alpha1.DeployItemStatus{
		Phase: v1alpha1.DeployItemPhaseSucceeded, ObservedGeneration: item.Generation,
		JobID: "job-" + item.Name, JobIDFinished: "job-" + item.Name, JobIDGenerationTime: &now, LastReconcileTime: &now,
		TransitionTimes: &v1alpha1.TransitionTimes{TriggerTime: &now, InitTime: &now, FinishedTime: &now},
	}
	return admin.Status().Update(ctx, item)
}

// TestStartWithManyItems: a host that starts learns from a few pages that most items have nothing to do, and a job that is set
// meanwhile does not wait for that.
func TestStartWithManyItems(t *testing.T) {
	f := newFleet(t)
	counts := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	var items []*v1alpha1.DeployItem
	for i := range finishedItems {
		item := counts.newItem(fmt.Sprintf("item-%04d", i), 0, 0, 0)
		item.Finalizers = []string{v1alpha1.Finalizer}
		items = append(items, item)
	}
	forEach(t, items, func(ctx context.Context, item *v1alpha1.DeployItem) error {
		if err := admin.Create(ctx, item); err != nil {
			return err
		}
		return finish(ctx, item)
	})
	mark := auditMark(t)

	first, second := items[finishedItems-1], items[0]
	began := time.Now()
	r := f.launch()
	jobID := setJob(t, first)
	waitFinished(t, first, jobID)
	t.Logf("a job that was set while the host starts is finished after %s", time.Since(began).Round(time.Millisecond))
	eventually(t, "the host to be ready", func(ctx context.Context) (string, error) {
		if err := r.Ready(ctx); err != nil {
			return err.Error(), nil //nolint:nilerr // that is what is waited for
		}
		return "", nil
	})
	eventually(t, "the host to have seen all items", func(context.Context) (string, error) { return f.pages(mark), nil })
	carryOutAgain(t, second, v1alpha1.DeployItemPhaseSucceeded)
	f.stop(r)

	f.checkStart(mark, counts.namespace, first.Name, second.Name)
	counts.check(first, second)
}

// pages says how many pages of items were read if they are not enough for all of them.
func (f *fleet) pages(mark int64) string {
	f.t.Helper()
	pages := 0
	for _, r := range f.itemLists(mark) {
		if strings.Contains(r.RequestURI, "continue=") {
			pages++
		}
	}
	if pages < 3 { // of 500 items each, beyond the first
		return fmt.Sprintf("%d pages beyond the first", pages)
	}
	return ""
}

func (f *fleet) itemLists(mark int64) (lists []*replicaRequest) {
	f.t.Helper()
	for _, r := range about(f.requestsOf(mark), "deployitems", "", "") {
		if r.Verb == "list" {
			lists = append(lists, r)
		}
	}
	return lists
}

// checkStart: no finished item was read by itself or written, and lists came in pages.
func (f *fleet) checkStart(mark int64, namespace string, withJob ...string) {
	f.t.Helper()
	single := about(f.requestsOf(mark), "deployitems", namespace, "")
	if len(single) < 2*2 {
		f.t.Errorf("expected some requests about the items with jobs, but found:\n%s", listReplicaRequests(single))
	}
	for _, r := range single {
		if r.ObjectRef.Name != withJob[0] && r.ObjectRef.Name != withJob[1] {
			f.t.Errorf("a request about an item that has nothing to do: %s", r.request)
		}
	}
	for _, r := range f.itemLists(mark) {
		if !strings.Contains(r.RequestURI, "limit=") {
			f.t.Errorf("a list without a limit: %s", r.request)
		}
	}
	if locks := about(f.requestsOf(mark), "syncobjects", namespace, ""); len(locks) > 2*2 {
		f.t.Errorf("expected a lock to cost two requests per job, but found:\n%s", listReplicaRequests(locks))
	}
}
