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
		TransitionTimes: &v1alpha1.TransitionTimes{TriggerTime: at(-time.Hour), InitTime: at(-time.Hour), FinishedTime: at(-time.Hour)},
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
		// after is how long after the job was set the look is taken.
		after time.Duration
		want  verdict
	}{
		"new": {
			reason: "a new item needs its first job, which has to be picked up in time", item: &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Generation: 1}},
			want: verdict{need: needJob, again: 5*time.Minute + grain},
		},
		"done": {
			reason: "the last job was for this item as it is", item: finishedItem(),
			want: verdict{need: needNothing},
		},
		"changed": {
			reason: "a changed spec, or a deletion, needs a job", item: finishedItem(),
			change: func(i *v1alpha1.DeployItem) { i.Generation++ },
			want:   verdict{need: needJob, again: 5*time.Minute + grain},
		},
		"asked for": {
			reason: "what somebody asks for is the deployer's matter", item: finishedItem(),
			change: func(i *v1alpha1.DeployItem) {
				i.Annotations = map[string]string{v1alpha1.OperationAnnotation: v1alpha1.OperationReconcile}
			},
			want: verdict{need: needNothing},
		},
		"changed while under way": {
			reason: "never two jobs at a time", item: runningItem(),
			change: func(i *v1alpha1.DeployItem) { i.Generation++ },
			want:   verdict{need: needPatience, again: 11 * time.Minute},
		},

		"waiting": {
			reason: "there is time left", item: waitingItem(), after: time.Minute,
			want: verdict{need: needNothing, again: 4*time.Minute + grain},
		},
		"waiting, within the last second": {
			reason: "the time was cut off to seconds", item: waitingItem(), after: 5*time.Minute + grain - 1,
			want: verdict{need: needNothing, again: 1},
		},
		"waiting too long": {
			reason: "nobody has picked it up", item: waitingItem(), after: 5*time.Minute + grain,
			want: verdict{need: needPickupTimeout},
		},
		"waiting too long, pickup none": {
			reason: "it may wait for ever", item: waitingItem(), after: 24 * time.Hour, none: true,
			want: verdict{need: needNothing},
		},
		"waiting, changed meanwhile": {
			reason: "a changed spec has all of the time to be picked up", item: waitingItem(), after: 6 * time.Minute,
			change: func(i *v1alpha1.DeployItem) { i.Generation++ }, known: known{changed: now.Add(2 * time.Minute)},
			want: verdict{need: needPatience, again: time.Minute + grain},
		},
		"waiting, type served late": {
			reason: "nobody could pick it up before", item: waitingItem(), after: time.Hour, known: known{served: now.Add(time.Hour)},
			want: verdict{need: needNothing, again: 5*time.Minute + grain},
		},
		"waiting, finished in the same second": {
			reason: "the times tell nothing, but a final phase does", item: waitingItem(), after: time.Hour,
			change: func(i *v1alpha1.DeployItem) { i.Status.LastReconcileTime = at(0) },
			want:   verdict{need: needPickupTimeout},
		},
		"waiting, replaced half-way": {
			reason: "the job that replaces another is not picked up by that", item: runningItem(), after: time.Hour,
			change: func(i *v1alpha1.DeployItem) { i.Status.LastReconcileTime = at(-time.Second) },
			want:   verdict{need: needPickupTimeout},
		},
		"waiting since nobody knows when": {
			reason: "it may have been set just now", item: waitingItem(), after: 24 * time.Hour,
			change: func(i *v1alpha1.DeployItem) { i.Status.JobIDGenerationTime, i.Status.TransitionTimes = nil, nil },
			want:   verdict{need: needNothing},
		},
		"waiting, only triggered": {
			reason: "that tells when it was set, too", item: waitingItem(), after: 5*time.Minute + grain,
			change: func(i *v1alpha1.DeployItem) { i.Status.JobIDGenerationTime = nil },
			want:   verdict{need: needPickupTimeout},
		},
		"clock set back": {
			reason: "nobody gets less time than there is", item: waitingItem(), after: -time.Hour,
			want: verdict{need: needNothing, again: time.Hour + 5*time.Minute + grain},
		},

		"under way": {
			reason: "there is time left", item: runningItem(), after: time.Minute,
			want: verdict{need: needNothing, again: 10 * time.Minute},
		},
		"past its deadline": {
			reason: "its deployer ends it now, or nobody does", item: runningItem(), after: 10 * time.Minute,
			want: verdict{need: needNothing, again: time.Minute},
		},
		"deployer dead": {
			reason: "a living one would have ended it", item: runningItem(), after: 11 * time.Minute,
			want: verdict{need: needProgressingTimeout},
		},
		"deployer dead, progressing none": {
			reason: "it may be dead for ever", item: runningItem(), after: 24 * time.Hour, none: true,
			want: verdict{need: needNothing},
		},
		"deployer back": {
			reason: "it gets the time to end the job itself", item: runningItem(), after: time.Hour, known: known{served: now.Add(time.Hour)},
			want: verdict{need: needNothing, again: time.Minute},
		},
		"own timeout": {
			reason: "spec.timeout sets the deadline", item: runningItem(), after: time.Minute,
			change: func(i *v1alpha1.DeployItem) { i.Spec.Timeout = "30m" },
			want:   verdict{need: needNothing, again: 30 * time.Minute},
		},
		"timeout none": {
			reason: "there is no deadline", item: runningItem(), after: 24 * time.Hour,
			change: func(i *v1alpha1.DeployItem) { i.Spec.Timeout = v1alpha1.NoDuration },
			want:   verdict{need: needNothing},
		},
		"picked up, not begun": {
			reason: "there is no deadline before a worker is free", item: waitingItem(), after: 24 * time.Hour,
			change: func(i *v1alpha1.DeployItem) { contract.Enqueue(i, false, v1alpha1.DeployerInformation{}, now) },
			want:   verdict{need: needNothing},
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
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
