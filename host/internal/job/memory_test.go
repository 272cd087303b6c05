package job

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestSighting(t *testing.T) {
	later := now.Add(time.Minute)
	cases := map[string]struct {
		reason     string
		before     sighting
		generation int64
		want       sighting
	}{
		"first, not changed": {
			reason: "the job is for a generation that was there before", generation: 1,
			want: sighting{jobID: "b", generation: 1},
		},
		"first, changed": {
			reason: "the change may be younger than the job", generation: 2,
			want: sighting{jobID: "b", generation: 2, changed: later},
		},
		"again": {
			reason: "the change was there when the job was set", before: sighting{jobID: "b", generation: 2}, generation: 2,
			want: sighting{jobID: "b", generation: 2},
		},
		"changed": {
			reason: "the change is younger than the job", before: sighting{jobID: "b", generation: 1}, generation: 2,
			want: sighting{jobID: "b", generation: 2, changed: later},
		},
		"changed before": {
			reason: "the time goes on", before: sighting{jobID: "b", generation: 2, changed: now}, generation: 2,
			want: sighting{jobID: "b", generation: 2, changed: now},
		},
		"changed once more": {
			reason: "the time begins anew", before: sighting{jobID: "b", generation: 2, changed: now}, generation: 3,
			want: sighting{jobID: "b", generation: 3, changed: later},
		},
		"another job": {
			reason: "what was seen of one job says nothing of another", before: sighting{jobID: "a", generation: 7, changed: now}, generation: 1,
			want: sighting{jobID: "b", generation: 1},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			item := waitingItem()
			item.Generation = tc.generation
			if diff := cmp.Diff(tc.want, tc.before.next(item, later), cmp.AllowUnexported(sighting{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestRemembersWaitingJobsOnly: what is remembered must not grow with the number of items.
func TestRemembersWaitingJobsOnly(t *testing.T) {
	for name, item := range map[string]*v1alpha1.DeployItem{"finished": finishedItem(), "picked up": runningItem()} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			m.see(waitingItem(), now)
			if len(m.waiting) != 1 {
				t.Fatalf("a job that waits must be remembered, but found %v", m.waiting)
			}
			m.see(item, now)
			if len(m.waiting) != 0 {
				t.Errorf("expected nothing to be remembered, but found %v", m.waiting)
			}
		})
	}
}
