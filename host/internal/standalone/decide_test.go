package standalone

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	cases := map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		change func(*v1alpha1.DeployItem)
		known  known
		// none switches the timeouts off.
		none bool
		// after is how long after the job was set this is decided.
		after time.Duration
		want  decision
	}{
		"new": {
			reason: "a new item needs its first job, which has to be picked up in time",
			item:   &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Generation: 1}},
			want:   decision{need: needJob, again: 5*time.Minute + resolution},
		},
		"done": {
			reason: "the last job was for this item as it is", item: finishedItem(),
			want: decision{need: needNothing},
		},
		"changed": {
			reason: "a changed spec, or a deletion, needs a job", item: finishedItem(),
			change: func(i *v1alpha1.DeployItem) { i.Generation++ },
			want:   decision{need: needJob, again: 5*time.Minute + resolution},
		},
		"asked for": {
			reason: "what somebody asks for is the deployer's matter", item: finishedItem(),
			change: func(i *v1alpha1.DeployItem) {
				i.Annotations = map[string]string{v1alpha1.OperationAnnotation: v1alpha1.OperationReconcile}
			},
			want: decision{need: needNothing},
		},
		"changed while under way": {
			reason: "never two jobs at a time", item: runningItem(),
			change: func(i *v1alpha1.DeployItem) { i.Generation++ },
			want:   decision{need: needJobLater, again: 11 * time.Minute},
		},

		"waiting": {
			reason: "there is time left", item: waitingItem(), after: time.Minute,
			want: decision{need: needNothing, again: 4*time.Minute + resolution},
		},
		"waiting, within the last second": {
			reason: "the time was cut off to seconds", item: waitingItem(), after: 5*time.Minute + resolution - 1,
			want: decision{need: needNothing, again: 1},
		},
		"waiting too long": {
			reason: "nobody has picked it up", item: waitingItem(), after: 5*time.Minute + resolution,
			want: decision{need: needPickupTimeout},
		},
		"waiting too long, pickup none": {
			reason: "it may wait for ever", item: waitingItem(), after: 24 * time.Hour, none: true,
			want: decision{need: needNothing},
		},
		"waiting, changed meanwhile": {
			reason: "a changed spec has all of the time to be picked up", item: waitingItem(), after: 6 * time.Minute,
			change: func(i *v1alpha1.DeployItem) { i.Generation++ }, known: known{changed: now.Add(2 * time.Minute)},
			want: decision{need: needJobLater, again: time.Minute + resolution},
		},
		"waiting, type served late": {
			reason: "nobody could pick it up before", item: waitingItem(), after: time.Hour,
			known: known{served: now.Add(time.Hour)},
			want:  decision{need: needNothing, again: 5*time.Minute + resolution},
		},
		"waiting since nobody knows when": {
			reason: "it may have been set just now", item: waitingItem(), after: 24 * time.Hour,
			change: func(i *v1alpha1.DeployItem) { i.Status.JobIDGenerationTime = nil },
			want:   decision{need: needNothing},
		},
		"clock set back": {
			reason: "nobody gets less time than there is", item: waitingItem(), after: -time.Hour,
			want: decision{need: needNothing, again: time.Hour + 5*time.Minute + resolution},
		},

		"deleted while under way": {
			reason: "its deployer cancels the call and picks it up anew, or is dead", item: runningItem(), after: 2 * time.Hour,
			change: func(i *v1alpha1.DeployItem) { i.Generation++; i.DeletionTimestamp = &metav1.Time{Time: now} },
			known:  known{changed: now.Add(2*time.Hour - time.Minute)},
			want:   decision{need: needJobLater, again: 4*time.Minute + resolution},
		},

		"under way": {
			reason: "there is time left", item: runningItem(), after: time.Minute,
			want: decision{need: needNothing, again: 10 * time.Minute},
		},
		"past its deadline": {
			reason: "its deployer ends it now, or nobody does", item: runningItem(), after: 10 * time.Minute,
			want: decision{need: needNothing, again: time.Minute},
		},
		"deployer dead": {
			reason: "a living one would have ended it", item: runningItem(), after: 11 * time.Minute,
			want: decision{need: needProgressingTimeout},
		},
		"deployer dead, progressing none": {
			reason: "it may be dead for ever", item: runningItem(), after: 24 * time.Hour, none: true,
			want: decision{need: needNothing},
		},
		"deployer back": {
			reason: "it gets the time to end the job itself", item: runningItem(), after: time.Hour,
			known: known{served: now.Add(time.Hour)},
			want:  decision{need: needNothing, again: time.Minute},
		},
		"picked up, not begun": {
			reason: "there is no deadline before a worker is free", item: waitingItem(), after: 24 * time.Hour,
			change: func(i *v1alpha1.DeployItem) { contract.Enqueue(i, false, v1alpha1.DeployerInformation{}, now) },
			want:   decision{need: needNothing},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			item := tc.item.DeepCopy()
			if tc.change != nil {
				tc.change(item)
			}
			options := allTimeouts
			if tc.none {
				options = Options{}
			}
			got := decide(item, tc.known, options, now.Add(tc.after))
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(decision{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
