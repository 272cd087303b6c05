package e2e

import (
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/test/bench/many"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestManyObjects: what one item with many objects costs its target, with kinds that the item defines itself.
func TestManyObjects(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	config, err := many.Config(namespace, managedresource.UpdateStrategyUpdate)
	if err != nil {
		t.Fatal(err)
	}
	item := withTarget(newItem(namespace, "item", manifestType, string(config)), "my-target")

	first := cost(t, "first job", func() { item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded) })
	if first.Writes() != many.Objects || first.All() > many.Objects+20 {
		t.Errorf("expected one write for each object, and hardly anything else, but found %s", first)
	}
	second := cost(t, "second job", func() { item = carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded) })
	if second.Writes()+second["dry run"] > 0 || second.All() > many.Objects/10 {
		t.Errorf("expected no write, and lists in place of a read for each object, but found %s", second)
	}
	deletion := cost(t, "deletion", func() {
		deleteObject(t, item)
		setJob(t, item)
		waitGone(t, item)
	})
	if deletion.Writes() != many.Objects || deletion.All() > 2*many.Objects+100 {
		t.Errorf("expected one write for each object, and one read at most, but found %s", deletion)
	}
}

// cost does something and returns the requests that it has cost the target.
func cost(t *testing.T, what string, do func()) many.Requests {
	t.Helper()
	mark, began := auditMark(t), time.Now()
	do()
	took := time.Since(began)
	requests, err := many.CountRequests(controlPlane.AuditLog, mark, "pergola-manifest")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s, %s", what, took.Round(time.Millisecond), requests)
	return requests
}
