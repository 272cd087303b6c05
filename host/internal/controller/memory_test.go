package controller

import (
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var (
	noon    = time.Date(2024, time.March, 14, 12, 0, 0, 0, time.UTC)
	itemKey = types.NamespacedName{Namespace: "ns", Name: "item"}
)

func itemAt(uid types.UID, version string) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "item", UID: uid, ResourceVersion: version},
	}
}

func TestRecall(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		uid     types.UID
		version string
		knows   bool
		retries int
	}{
		"same":      {reason: "nothing has happened since", uid: "a", version: "5", knows: true, retries: 3},
		"older":     {reason: "the cache lags behind the last write", uid: "a", version: "4", knows: true, retries: 3},
		"newer":     {reason: "another client has written since", uid: "a", version: "6", retries: 3},
		"more":      {reason: "versions are numbers, not texts", uid: "a", version: "10", retries: 3},
		"recreated": {reason: "another item of the same name", uid: "b", version: "5"},
		"no number": {reason: "a version that cannot be compared costs a read", uid: "a", version: "x", retries: 3},
	} {
		m := newMemory()
		m.requeue(itemAt("a", "5"), entry{jobMemory: jobMemory{retries: 3}}, noon)
		if known := m.recall(itemKey, tc.uid); known.knows(tc.version) != tc.knows || known.retries != tc.retries {
			t.Errorf("%s: %s: found %+v", name, tc.reason, known)
		}
		m.outdated(itemKey, nil)
		if known := m.recall(itemKey, tc.uid); known.knows(tc.version) || known.retries != tc.retries {
			t.Errorf("%s: after a conflict: found %+v", name, known)
		}
		m.forget(itemKey)
		if known := m.recall(itemKey, tc.uid); known != (entry{}) {
			t.Errorf("%s: found %+v after it was forgotten", name, known)
		}
	}
}

// TestSubscriptionOfALaterCall: a call that ends leaves the subscription of another one for an item of the name.
func TestSubscriptionOfALaterCall(t *testing.T) {
	m := newMemory()
	_, end := m.subscribe(itemKey)
	signals, endLater := m.subscribe(itemKey)
	end()
	m.changed(itemKey)
	if len(signals) != 1 {
		t.Error("expected the later call to learn of the change")
	}
	endLater()
	if len(m.subscribed) != 0 {
		t.Errorf("expected no subscription, but found %d", len(m.subscribed))
	}
}

// TestWakeUpsAreNotLost: a job is due earlier than it says if it is woken, while it is being worked on or afterwards.
func TestWakeUpsAreNotLost(t *testing.T) {
	hour := noon.Add(time.Hour)
	waiting := entry{jobMemory: jobMemory{due: hour}}
	forPlugin, failed := waiting, waiting
	forPlugin.waitsFor, failed.retries = "p", 4
	wakes := func(plugin string) func(*router) {
		return func(r *router) { r.memory.wake(itemKey, plugin, noon) }
	}
	runs := func(plugin string) func(*router) {
		return func(r *router) { r.pluginsRun(map[string]bool{plugin: true}) }
	}
	hooks := func(r *router) { r.hooksChanged([]v1alpha1.DeployItemType{testType}) }
	none := func(*router) {}
	for name, tc := range map[string]struct {
		reason        string
		during, after func(*router)
		ends          entry
		want          time.Time
	}{
		"no wake-up": {"the plugin's hint counts", none, none, waiting, hour},
		"meanwhile":  {"between the call and its note", wakes("p"), none, waiting, noon.Add(job.MinPoll)},
		"right afterwards": {
			"a plugin that wakes all the time gets no worker of its own", none, wakes("p"), waiting, noon.Add(job.MinPoll),
		},
		"of another one":   {"a plugin wakes its own items", wakes("q"), none, waiting, hour},
		"plugin runs":      {"that is what the job waits for", none, runs("p"), forPlugin, noon},
		"plugin runs, but": {"the job waits for something else", runs("p"), runs("p"), waiting, hour},
		"other plugin":     {"not the one that it waits for", none, runs("q"), forPlugin, hour},
		"after an error":   {"what has changed may have been the cause", none, hooks, failed, noon},
		"without an error": {"what has changed was not the cause", none, hooks, waiting, hour},
	} {
		r := newRouter(&fakePlugins{serving: []*fakeDeployer{{name: "p", itemType: testType}}}, lock.Off{}, newMemory(),
			func() time.Time { return noon }, slog.New(slog.DiscardHandler))
		begun := r.memory.begin(itemAt("a", "5"), entry{jobMemory: jobMemory{waitsFor: "p", woken: true}}, "p")
		tc.during(r)
		tc.ends.plugin = begun.plugin
		r.memory.requeue(itemAt("a", "5"), tc.ends, noon)
		tc.after(r)
		known := r.memory.recall(itemKey, "a")
		if !known.due.Equal(tc.want) || begun.woken || begun.waitsFor != "" {
			t.Errorf("%s: %s: expected it to be due at %s, but found %s", name, tc.reason, tc.want, known.due)
		}
		if due := r.memory.requeue(itemAt("a", "5"), r.memory.begin(itemAt("a", "5"), known, "p"), noon); due.Before(known.due) {
			t.Errorf("%s: a wake-up counts once, but the next step was woken again", name)
		}
	}
}
