package controller

import (
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestLockIsLookedAtAfterTheItem: the watch of items is ahead of that of locks. Who still thinks that the lock is
// held reads the item as the next holder has written it, and must not go on from there.
func TestLockIsLookedAtAfterTheItem(t *testing.T) {
	b := newBench(t, answers(func() (*plugin.Outcome, error) { return waits("something") }),
		func(i *v1alpha1.DeployItem) { i.Spec.Timeout = v1alpha1.NoDuration })
	here, there := newPeer(b, "here"), newPeer(b, "there")
	b.setJob()
	here.look(t.Context()) // and holds the lock on
	there.others.dead["here"] = true
	there.hear()
	there.look(t.Context()) // takes the job over
	b.answer = succeeds
	calls, version := len(b.calls), b.read().ResourceVersion
	here.look(t.Context()) // has heard that the item has changed, and not that the lock was taken
	if len(b.calls) != calls || b.read().ResourceVersion != version {
		t.Errorf("who has lost the lock calls the plugin and writes: calls %v, %s", b.calls, describe(b.read()))
	}
	if holder, _ := b.holder(); holder != "there" {
		t.Errorf("the lock is held by %q", holder)
	}
}
