package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var (
	noon    = time.Date(2024, time.March, 14, 12, 0, 0, 0, time.UTC)
	itemKey = types.NamespacedName{Namespace: "ns", Name: "item"}
)

func itemAt(uid types.UID, version string) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "item", UID: uid, ResourceVersion: version}}
}

func TestRecall(t *testing.T) {
	cases := map[string]struct {
		reason       string
		uid          types.UID
		version      string
		wantCurrent  bool
		wantPrevious bool
	}{
		"same":      {reason: "nothing has happened since", uid: "a", version: "5", wantCurrent: true, wantPrevious: true},
		"older":     {reason: "the cache lags behind what was written here", uid: "a", version: "4", wantCurrent: true, wantPrevious: true},
		"newer":     {reason: "somebody has written since", uid: "a", version: "6", wantPrevious: true},
		"more":      {reason: "versions are numbers, not texts", uid: "a", version: "10", wantPrevious: true},
		"recreated": {reason: "another item of the same name", uid: "b", version: "5"},
		"no number": {reason: "a version that cannot be compared costs a read", uid: "a", version: "x", wantPrevious: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			m.underWay(entry{item: itemAt("a", "5"), retries: 3}, noon)
			known, current := m.recall(itemKey, tc.uid, tc.version)
			previous := m.previous(itemKey, tc.uid)
			if current != tc.wantCurrent || current != (known.item != nil) || (previous.retries == 3) != tc.wantPrevious {
				t.Errorf("%s: current %t, item %v, previous %+v", tc.reason, current, known.item, previous)
			}
			m.forget(itemKey)
			if _, current := m.recall(itemKey, tc.uid, tc.version); current || m.previous(itemKey, tc.uid).retries != 0 {
				t.Error("what was forgotten is still there")
			}
		})
	}
}

func TestWakeUpsAreNotLost(t *testing.T) {
	hour := noon.Add(time.Hour)
	waiting := entry{item: itemAt("a", "5"), due: hour}
	forPlugin := entry{item: itemAt("a", "5"), due: hour, waitsForPlugin: true}
	wake := func(m *memory) { m.wake(itemKey, "p", noon) }
	pluginRuns := func(m *memory) { m.wakeAll(map[string]bool{"p": true}, noon) }
	none := func(*memory) {}
	cases := map[string]struct {
		reason        string
		during, after func(*memory)
		ends          entry
		want          time.Time
	}{
		"no wake-up":                       {reason: "the plugin's hint counts", during: none, after: none, ends: waiting, want: hour},
		"during the first step":            {reason: "nothing was remembered of the item before", during: wake, after: none, ends: waiting, want: noon.Add(minPoll)},
		"right afterwards":                 {reason: "a plugin that wakes all the time gets no worker of its own", during: none, after: wake, ends: waiting, want: noon.Add(minPoll)},
		"of another plugin":                {reason: "a plugin wakes its own items", during: func(m *memory) { m.wake(itemKey, "q", noon) }, after: none, ends: waiting, want: hour},
		"plugin runs afterwards":           {reason: "that is what the job waits for", during: none, after: pluginRuns, ends: forPlugin, want: noon},
		"plugin came to run meanwhile":     {reason: "between the failed call and the note that it failed", during: pluginRuns, after: none, ends: forPlugin, want: noon.Add(minPoll)},
		"plugin runs, waiting for another": {reason: "a job that waits for something else is left alone", during: pluginRuns, after: pluginRuns, ends: waiting, want: hour},
		"other plugin runs": {reason: "not the one that it waits for", ends: forPlugin, want: hour, during: none, after: func(m *memory) {
			m.wakeAll(map[string]bool{"q": true}, noon)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			begun := m.begin(entry{item: itemAt("a", "5"), waitsForPlugin: true}, "p")
			if begun.waitsForPlugin || begun.woken != notWoken {
				t.Errorf("a step begins without what the last one has left, but found %+v", begun)
			}
			tc.during(m)
			ends := tc.ends
			ends.pluginName = begun.pluginName
			m.underWay(ends, noon)
			tc.after(m)
			known, _ := m.recall(itemKey, "a", "5")
			if diff := cmp.Diff(tc.want, known.due); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			known, _ = m.recall(itemKey, "a", "5")
			if due := m.underWay(m.begin(known, "p"), noon); due.Before(known.due) {
				t.Error("a wake-up counts once, but the next step was woken again")
			}
		})
	}
}

// TestRetry: what comes or changes makes the jobs due that wait for it and have met an error, and no others.
func TestRetry(t *testing.T) {
	hour := noon.Add(time.Hour)
	for name, tc := range map[string]struct {
		retries int
		which   bool
		want    time.Time
	}{
		"a job with an error":    {4, true, noon},
		"a job without an error": {0, true, hour},
		"another job":            {4, false, hour},
	} {
		m := newMemory()
		m.underWay(m.begin(entry{item: itemAt("a", "5"), due: hour, retries: tc.retries}, "p"), noon)
		woken := m.retry(noon, func(types.NamespacedName, *entry) bool { return tc.which })
		known, _ := m.recall(itemKey, "a", "5")
		if _, retried := woken[itemKey]; !known.due.Equal(tc.want) || retried != tc.want.Equal(noon) {
			t.Errorf("%s: expected it to be due at %s, but found %s, retried %v", name, tc.want, known.due, woken)
		}
	}
}

func itemMetadata(version string) *metav1.PartialObjectMetadata {
	meta := NewMetadata()
	meta.Namespace, meta.Name, meta.UID, meta.ResourceVersion, meta.Generation = "ns", "item", "a", version, 1
	return meta
}
