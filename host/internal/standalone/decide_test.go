package standalone

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var allTimeouts = Options{PickupTimeout: 5 * time.Minute, ProgressingTimeout: time.Minute}

func at(offset time.Duration) *v1alpha1.Time {
	t := v1alpha1.NewTime(now.Add(offset))
	return &t
}

// finishedItem is an item whose last job was for it as it is.
func finishedItem() *v1alpha1.DeployItem {
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "item", Generation: 1}}
	item.Status = v1alpha1.DeployItemStatus{
		Phase: v1alpha1.DeployItemPhaseSucceeded, JobID: "a", JobIDFinished: "a", ObservedGeneration: 1,
		JobIDGenerationTime: at(-time.Hour), LastReconcileTime: at(-time.Hour),
		TransitionTimes: &v1alpha1.TransitionTimes{
			TriggerTime: at(-time.Hour), InitTime: at(-time.Hour), FinishedTime: at(-time.Hour),
		},
	}
	return item
}

// waitingItem is an item with a job, set now, that waits for a deployer.
func waitingItem() *v1alpha1.DeployItem {
	item := finishedItem()
	item.Status.JobID, item.Status.JobIDGenerationTime = "b", at(0)
	item.Status.TransitionTimes = &v1alpha1.TransitionTimes{TriggerTime: at(0)}
	return item
}

// runningItem is an item with a job, set and picked up now.
func runningItem() *v1alpha1.DeployItem {
	item := waitingItem()
	contract.Begin(item, false, v1alpha1.DeployerInformation{Name: "one"}, now)
	contract.Progress(item)
	return item
}

func TestDecide(t *testing.T) {
	const pickup, none = 5*time.Minute + resolution, true
	change := func(i *v1alpha1.DeployItem) { i.Generation++ }
	asked := func(i *v1alpha1.DeployItem) {
		i.Annotations = map[string]string{v1alpha1.OperationAnnotation: v1alpha1.OperationReconcile}
	}
	undated := func(i *v1alpha1.DeployItem) { i.Status.JobIDGenerationTime = nil }
	deleted := func(i *v1alpha1.DeployItem) { i.Generation++; i.DeletionTimestamp = &metav1.Time{Time: now} }
	queued := func(i *v1alpha1.DeployItem) {
		contract.Enqueue("a free worker")(i, false, v1alpha1.DeployerInformation{}, now)
	}
	setJob := decision{need: needJob, again: pickup}
	fresh := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	finished, waiting, running := finishedItem(), waitingItem(), runningItem()
	failedDeletion := finishedItem()
	failedDeletion.DeletionTimestamp = &metav1.Time{Time: now}
	failedDeletion.Status.Phase = v1alpha1.DeployItemPhaseDeleteFailed
	wait := func(d time.Duration) decision { return decision{need: needNothing, again: d} }
	changed := func(after time.Duration) known { return known{changed: now.Add(after)} }
	served := known{served: now.Add(time.Hour)}
	for _, tc := range []struct {
		reason string
		item   *v1alpha1.DeployItem
		change func(*v1alpha1.DeployItem)
		known  known
		none   bool          // switches the timeouts off
		after  time.Duration // since the job was set
		want   decision
	}{
		{reason: "a new item needs its first job, which has to be picked up in time", item: fresh, want: setJob},
		{reason: "the last job was for this item as it is", item: finished, want: wait(0)},
		{reason: "a changed spec, or a deletion, needs a job", item: finished, change: change, want: setJob},
		{
			reason: "so does a spec that was changed when the deletion had failed",
			item:   failedDeletion, change: change, want: setJob,
		},
		{reason: "what somebody asks for is the deployer's matter", item: finished, change: asked, want: wait(0)},
		{reason: "never two jobs at a time", item: running, change: change, want: wait(11 * time.Minute)},

		{reason: "there is time left to pick it up", item: waiting, after: time.Minute, want: wait(pickup - time.Minute)},
		{reason: "the time was cut off to seconds", item: waiting, after: pickup - 1, want: wait(1)},
		{reason: "nobody has picked it up", item: waiting, after: pickup, want: decision{need: needPickupTimeout}},
		{reason: "it may wait for ever", item: waiting, after: 24 * time.Hour, none: none, want: wait(0)},
		{reason: "a changed spec has all of the time to be picked up", item: waiting, after: 6 * time.Minute, change: change,
			known: changed(2 * time.Minute), want: wait(pickup - 4*time.Minute)},
		{reason: "nobody could pick it up before the type was served", item: waiting, after: time.Hour, known: served,
			want: wait(pickup)},
		{reason: "it may have been set just now", item: waiting, after: 24 * time.Hour, change: undated, want: wait(0)},
		{reason: "the clock was set back, and nobody gets less time than there is", item: waiting, after: -time.Hour,
			want: wait(time.Hour + pickup)},
		{reason: "the deployer cancels its call and picks the deletion up, or is dead", item: running, change: deleted,
			after: 2 * time.Hour, known: changed(2*time.Hour - time.Minute), want: wait(pickup - time.Minute)},

		{reason: "there is time left to end it", item: running, after: time.Minute, want: wait(10 * time.Minute)},
		{reason: "its deployer ends it now, or nobody does", item: running, after: 10 * time.Minute, want: wait(time.Minute)},
		{reason: "a living deployer would have ended it", item: running, after: 11 * time.Minute,
			want: decision{need: needProgressingTimeout}},
		{reason: "the deployer may be dead for ever", item: running, after: 24 * time.Hour, none: none, want: wait(0)},
		{reason: "a deployer that is back gets the time to end the job itself", item: running, after: time.Hour,
			known: served, want: wait(time.Minute)},
		{reason: "there is no deadline before a worker is free", item: waiting, after: 24 * time.Hour, change: queued,
			want: wait(0)},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			item, options := tc.item.DeepCopy(), allTimeouts
			if tc.change != nil {
				tc.change(item)
			}
			if tc.none {
				options = Options{}
			}
			if got := decide(item, tc.known, options, now.Add(tc.after)); got != tc.want {
				t.Errorf("expected %+v, but found %+v", tc.want, got)
			}
		})
	}
}
