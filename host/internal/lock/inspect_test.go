package lock

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestObjectThatTheWatchDoesNotShow: one that is no lock of here is named in the log; one that the watch is late with is taken note of.
func TestObjectThatTheWatchDoesNotShow(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		change       func(*v1alpha1.SyncObject)
		warned       bool
	}{
		{"none of ours", "its prefix is not that of the name", func(o *v1alpha1.SyncObject) { o.Spec.Prefix = "on" }, true},
		{"of another item", "it locks an item of another name", func(o *v1alpha1.SyncObject) { o.Spec.Name = "other" }, true},
		{"late", "it is the lock", func(*v1alpha1.SyncObject) {}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log strings.Builder
			b, key := newBench(t, "here", func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }), newKey(t)
			newLock(t, key, "", tc.change)
			b.acquireInVain("the object exists", key)
			if log.Len() > 0 {
				t.Errorf("%s: the watch may be late, but there is\n%s", tc.reason, log.String())
			}
			b.acquireInVain("the object still exists", key)
			warned := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), key.Item.String())
			if warned != tc.warned {
				t.Errorf("%s: expected a warning: %t, but found\n%s", tc.reason, tc.warned, log.String())
			}
			if !tc.warned {
				b.expectTold(tc.reason, "freed item")
				b.acquire(key)
			}
			b.Forget(key.Plugin, key.Item)
			if len(b.waiting)+len(b.stale)+len(b.held) > 0 {
				t.Errorf("%s: something is left of an item that is gone: %v %v %v", tc.reason, b.waiting, b.stale, b.held)
			}
		})
	}
}
