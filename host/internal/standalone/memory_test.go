package standalone

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

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

// TestRemembersWaitingJobsOnly: of most items nothing is remembered but the few words of a judgement.
func TestRemembersWaitingJobsOnly(t *testing.T) {
	for name, item := range map[string]*v1alpha1.DeployItem{"finished": finishedItem(), "picked up": runningItem()} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			m.see(waitingItem(), now)
			if len(m.items) != 1 {
				t.Fatalf("a job that waits must be remembered, but found %v", m.items)
			}
			m.see(item, now)
			if len(m.items) != 0 {
				t.Errorf("expected nothing to be remembered, but found %v", m.items)
			}
		})
	}
}

func TestRecall(t *testing.T) {
	const (
		nothing = "nothing"
		old     = "old"
		fresh   = "new"
	)
	seen := func(uid types.UID, version, itemType string) *v1alpha1.DeployItem {
		item := finishedItem()
		item.UID, item.ResourceVersion, item.Spec.Type = uid, version, v1alpha1.DeployItemType(itemType)
		return item
	}
	cases := map[string]struct {
		reason       string
		seen         []*v1alpha1.DeployItem
		uid, version string // as the cache has them
		want         string
	}{
		"never seen": {reason: "nobody has looked at it", uid: "a", version: "5", want: nothing},
		"the same":   {reason: "it has not changed", seen: []*v1alpha1.DeployItem{seen("a", "5", old)}, uid: "a", version: "5", want: old},
		"changed":    {reason: "it may need something now", seen: []*v1alpha1.DeployItem{seen("a", "5", old)}, uid: "a", version: "10", want: nothing},
		"cache behind": {
			reason: "what was seen is newer than the cache", seen: []*v1alpha1.DeployItem{seen("a", "10", old)}, uid: "a", version: "5", want: old,
		},
		"recreated": {
			reason: "it is another item of the same name", seen: []*v1alpha1.DeployItem{seen("a", "5", old)}, uid: "b", version: "5", want: nothing,
		},
		"seen again": {
			reason: "what is newer counts", seen: []*v1alpha1.DeployItem{seen("a", "5", old), seen("a", "10", fresh)}, uid: "a", version: "10", want: fresh,
		},
		"listed before it was read": {
			reason: "a survey may tell late of an item that was looked at since", uid: "a", version: "10", want: fresh,
			seen: []*v1alpha1.DeployItem{seen("a", "10", fresh), seen("a", "5", old)},
		},
		"recreated and seen": {
			reason: "versions of two items have nothing to do with each other", uid: "b", version: "5", want: fresh,
			seen: []*v1alpha1.DeployItem{seen("a", "10", old), seen("b", "5", fresh)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			for _, item := range tc.seen {
				m.judge(item, true)
			}
			meta := newMetadata()
			meta.Namespace, meta.Name = finishedItem().Namespace, finishedItem().Name
			meta.UID, meta.ResourceVersion = types.UID(tc.uid), tc.version
			got := nothing
			if j, ok := m.recall(meta); ok {
				got = string(j.itemType)
			}
			if got != tc.want {
				t.Errorf("%s: expected %s, but found %s", tc.reason, tc.want, got)
			}
		})
	}
}
