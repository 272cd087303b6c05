package itemstate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/job"
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
		m := NewMemory()
		m.Requeue(itemAt("a", "5"), Entry{Job: Job{Progress: job.Progress{Retries: 3}}}, noon)
		if known := m.Recall(itemKey, tc.uid); known.Knows(tc.version) != tc.knows || known.Retries != tc.retries {
			t.Errorf("%s: %s: found %+v", name, tc.reason, known)
		}
		m.SetOutdated(itemKey, nil)
		if known := m.Recall(itemKey, tc.uid); known.Knows(tc.version) || known.Retries != tc.retries {
			t.Errorf("%s: after a conflict: found %+v", name, known)
		}
		m.Forget(itemKey)
		if known := m.Recall(itemKey, tc.uid); known != (Entry{}) {
			t.Errorf("%s: found %+v after it was forgotten", name, known)
		}
	}
}

// TestSubscriptionOfALaterCall: a call that ends leaves the subscription of another one for an item of the name.
// Rule (deploy-items.md#operations): `abort` reaches the call for an item created anew with another type, while the
// call before still ends.
func TestSubscriptionOfALaterCall(t *testing.T) {
	m := NewMemory()
	_, end := m.Subscribe(itemKey)
	signals, endLater := m.Subscribe(itemKey)
	end()
	m.Changed(itemKey)
	if len(signals) != 1 {
		t.Error("expected the later call to learn of the change")
	}
	endLater()
	if len(m.subscribed) != 0 {
		t.Errorf("expected no subscription, but found %d", len(m.subscribed))
	}
}
