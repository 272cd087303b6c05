package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestOperations follows an item through the operations that a user can ask for. A reconcile waits for the job
// under way, a force-reconcile replaces its call, and an abort ends it, also when the host is killed in the middle
// of that.
func TestOperations(t *testing.T) {
	plugins := pluginDir(t, "probe")
	host := startReadyHost(t, testenv.HostOptions{PluginDir: plugins})
	dir := t.TempDir()
	item := start(t, newItem(newNamespace(t), "item", probeType, probeConfig(dir, "blockUntil", "abortUntil")))
	first := item.Status.JobID
	waitCalled(t, dir, "reconcile "+first)
	versions := record(t, item)

	mark := markAudit(t)
	ask(t, item, v1alpha1.OperationReconcile)
	waitSeen(t, mark, item)
	if item = read(t, item); item.Annotations[v1alpha1.OperationAnnotation] == "" || item.Status.JobID != first {
		t.Errorf("expected the annotation to stay while the job is under way, but found %v, %s", item.Annotations, describe(item))
	}
	touch(t, dir+"/blockUntil")
	item = waitFinishedAfter(t, item, first)
	checkNoted(t, versions.upTo(t, item), v1alpha1.OperationReconcile)
	want := []string{"reconcile " + first, "reconcile " + item.Status.JobID}
	checkCalls(t, dir, want...)

	remove(t, dir+"/blockUntil")
	forced := setJob(t, item)
	waitCalled(t, dir, "reconcile "+forced)
	ask(t, item, v1alpha1.OperationForceReconcile)
	waitCalled(t, dir, "force-reconcile "+forced)
	touch(t, dir+"/blockUntil")
	if item = waitFinished(t, item, forced); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("expected the forced job to succeed, but found %s", describe(item))
	}
	want = append(want, "reconcile "+forced, "stopped "+forced, "force-reconcile "+forced)
	checkCalls(t, dir, want...)

	remove(t, dir+"/blockUntil")
	aborted := setJob(t, item)
	waitCalled(t, dir, "reconcile "+aborted)
	abort := []string{"items", "abort", item.Name, "-n", item.Namespace, "--kubeconfig", controlPlane.Kubeconfig}
	pergola(t, abort...).expect(t, 0, item.Name)
	waitCalled(t, dir, "abort "+aborted)
	if err := host.Kill(); err != nil {
		t.Fatal(err)
	}
	touch(t, dir+"/abortUntil")
	startReadyHost(t, testenv.HostOptions{PluginDir: plugins})
	waitAborted(t, item, aborted, v1alpha1.DeployItemPhaseFailed)
	want = append(want, "reconcile "+aborted, "stopped "+aborted, "abort "+aborted)
	if got := slices.Compact(calls(t, dir)); !slices.Equal(got, want) {
		t.Errorf("expected nothing but aborts after the abort has begun:\nwant %q\ngot  %q", want, got)
	}
}

// checkNoted checks that there was no version of the item in which the operation is neither asked for nor noted.
func checkNoted(t *testing.T, versions []*v1alpha1.DeployItem, operation string) {
	t.Helper()
	asked := slices.IndexFunc(versions, func(i *v1alpha1.DeployItem) bool {
		return i.Annotations[v1alpha1.OperationAnnotation] == operation
	})
	if asked < 0 {
		t.Fatalf("no version of %d asks for the operation", len(versions))
	}
	for _, version := range versions[asked:] {
		if version.Annotations[v1alpha1.OperationAnnotation] == operation {
			continue
		}
		var note struct{ Operation string }
		text := version.Annotations[noteAnnotation]
		if err := json.Unmarshal([]byte(text), &note); err != nil || note.Operation != operation {
			t.Errorf("in version %s the operation is neither asked for nor noted: %q", version.ResourceVersion, text)
		}
	}
}

// waitSeen waits until the host has read the item since a mark in the audit log.
func waitSeen(t *testing.T, mark auditMark, item *v1alpha1.DeployItem) {
	t.Helper()
	eventually(t, "the host to look at the item", func(context.Context) (string, error) {
		for _, r := range requestsSince(t, mark, item.Namespace) {
			if r.Verb == "get" && r.ObjectRef.Resource == "deployitems" && r.ObjectRef.Name == item.Name {
				return "", nil
			}
		}
		return "it has not", nil
	})
}
