package standalone

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var allTimeouts = Options{
	PickupTimeout: 5 * time.Minute, ProgressingTimeout: time.Minute,
	Pauses: contract.Pauses{First: time.Minute, Longest: time.Hour},
}

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
	const pickup, none = 5*time.Minute + contract.Resolution, true
	const progress = 11*time.Minute + contract.Resolution // the time of the job, then that of a dead deployer
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
	compared := known{compare: true}
	repaired := decision{need: needRepaired, again: pickup}
	pause := func(i *v1alpha1.DeployItem) { i.Annotations = map[string]string{contract.PausedAnnotation: "true"} }
	failed, broken := runningItem(), runningItem()
	allTimeouts.Pauses.Fail(failed, false, contract.Error{Reason: "Unreachable"}, 0, now)
	allTimeouts.Pauses.Fail(broken, false, contract.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
	}, 0, now)
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
		{reason: "the job of an earlier spec gives way", item: running, change: change, want: setJob},
		{reason: "a queued job takes the new spec", item: waiting, want: wait(0),
			change: func(i *v1alpha1.DeployItem) { queued(i); change(i) }},

		{reason: "a failed job is tried again after a pause", item: failed, after: 20 * time.Second,
			want: wait(40 * time.Second)},
		{reason: "a failed job is tried again", item: failed, after: time.Minute,
			want: decision{need: needTry, again: pickup}},
		{reason: "a repair counts at once", item: failed, known: known{repaired: true}, want: repaired},
		{reason: "whatever the error was", item: broken, known: known{repaired: true}, want: repaired},
		{reason: "only a change heals an error of the user", item: broken, after: 24 * time.Hour, want: wait(0)},
		{reason: "a repair does not matter after a success", item: finished, known: known{repaired: true}, want: wait(0)},
		{reason: "it is time to compare", item: finished, known: compared,
			want: decision{need: needComparison, again: pickup}},
		{reason: "it has its own schedule", item: finished, known: compared, want: wait(0),
			change: func(i *v1alpha1.DeployItem) {
				i.Spec.Config = &runtime.RawExtension{Raw: []byte(`{"continuousReconcile":{"every":"1h"}}`)}
			}},
		{reason: "it rules out jobs without a change", item: finished, known: compared, want: wait(0),
			change: func(i *v1alpha1.DeployItem) { i.Spec.UpdateOnChangeOnly = true }},
		{reason: "it is not deployed", item: broken, known: compared, want: wait(0)},
		{reason: "a paused item is not compared", item: finished, change: pause, known: compared, want: wait(0)},
		{reason: "a paused item gets no job for a change", item: finished, want: wait(0),
			change: func(i *v1alpha1.DeployItem) { pause(i); change(i) }},
		{reason: "nor after a failure", item: failed, change: pause, after: time.Hour, want: wait(0)},
		{reason: "nor after a repair", item: failed, change: pause, known: known{repaired: true}, want: wait(0)},
		{reason: "a running job of a paused item ends", item: running, want: wait(progress),
			change: func(i *v1alpha1.DeployItem) { pause(i); change(i) }},
		{reason: "a paused item is deleted", item: finished, want: setJob,
			change: func(i *v1alpha1.DeployItem) { pause(i); deleted(i) }},

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

		{reason: "there is time left to end it", item: running, after: time.Minute, want: wait(progress - time.Minute)},
		{reason: "its deployer ends it now, or nobody does", item: running, after: progress - time.Minute,
			want: wait(time.Minute)},
		{reason: "a living deployer would have ended it", item: running, after: progress,
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

// Rule (host-configuration.md#fields): With `continuousReconcile.defaultInterval`, jobs of items without a schedule are
// spread over the interval.
func TestComparisonsAreSpread(t *testing.T) {
	const items, parts = 1000, 10
	perPart := map[int]int{}
	for i := range items {
		uid := types.UID(fmt.Sprint("item-", i))
		first := nextComparison(uid, time.Hour, now)
		if second := nextComparison(uid, time.Hour, first); second.Sub(first) != time.Hour || !first.After(now) {
			t.Fatalf("%s: compared at %s, and then at %s", uid, first, second)
		}
		perPart[int(first.Sub(now)*parts/(time.Hour+1))]++
	}
	for part, count := range perPart {
		if len(perPart) != parts || count < items/parts/2 || count > items/parts*2 {
			t.Errorf("part %d of the interval has %d of %d items", part, count, items)
		}
	}
}

// Rule (host-configuration.md#fields): An item without a schedule is compared once in each interval, until
// it gets a schedule or goes.
func TestComparisonsComeOnce(t *testing.T) {
	const interval = time.Hour
	m, item := newMemory(), &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Name: "item", UID: "a"}}
	first := nextComparison(item.UID, interval, now)
	for _, step := range []struct {
		reason   string
		interval time.Duration
		at       time.Time
		due      bool
	}{
		{"it is too early", interval, first.Add(-time.Second), false},
		{"it is time", interval, first, true},
		{"it was compared", interval, first.Add(time.Minute), false},
		{"the next interval", interval, first.Add(interval), true},
		{"many intervals at once", interval, first.Add(5*interval + time.Minute), true},
		{"it keeps its part of the interval", interval, first.Add(6*interval - time.Second), false},
		{"its part of the interval", interval, first.Add(6 * interval), true},
		{"it has its own schedule", 0, first.Add(7 * interval), false},
	} {
		m.schedule(item, step.interval, now)
		due := m.due(interval, step.at)
		if (len(due) == 1) != step.due || m.recall(item).compare != step.due {
			t.Errorf("%s: found %v, %+v", step.reason, due, m.recall(item))
		}
		m.jobSet(client.ObjectKeyFromObject(item))
	}
}
