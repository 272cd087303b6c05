package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

func TestAbort(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe", "mock")})
	namespace := newNamespace(t)
	for name, test := range map[string]func(t *testing.T, namespace string){
		"of a call":                   abortCall,
		"of a deletion":               abortDeletion,
		"of a job that waits":         abortWait,
		"that takes its time":         abortSlowly,
		"that fails":                  abortInVain,
		"of a plugin that knows none": abortPlain,
	} {
		t.Run(name, func(t *testing.T) { test(t, namespace) })
	}
}

func abortCall(t *testing.T, namespace string) {
	t.Helper()
	dir := t.TempDir()
	item, jobID := startCall(t, newItem(namespace, "call", probeType, probeConfig(dir, "blockUntil")))
	versions := record(t, item)
	ask(t, item, v1alpha1.OperationAbort)
	item = waitAborted(t, item, jobID, v1alpha1.DeployItemPhaseFailed)
	checkCalls(t, dir, "reconcile "+jobID, "stopped "+jobID, "abort "+jobID)
	checkNoted(t, versions.upTo(t, item), v1alpha1.OperationAbort)

	touch(t, dir+"/blockUntil") // the next job is one like any other
	carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
}

func abortDeletion(t *testing.T, namespace string) {
	t.Helper()
	dir := t.TempDir()
	item, jobID := startDeletionCall(t, newItem(namespace, "deletion", probeType, probeConfig(dir, "blockUntil")))
	ask(t, item, v1alpha1.OperationAbort)
	item = waitAborted(t, item, jobID, v1alpha1.DeployItemPhaseDeleteFailed)
	checkCalls(t, dir, "reconcile ", "delete "+jobID, "stopped "+jobID, "abort "+jobID)

	touch(t, dir+"/blockUntil")
	ask(t, item, v1alpha1.OperationReconcile) // of a deleted item: once more
	waitGone(t, item)
}

func abortWait(t *testing.T, namespace string) {
	t.Helper()
	dir := t.TempDir()
	item := newItem(namespace, "waiting", probeType, probeConfig(dir, "waitFor"))
	create(t, item)
	jobID := setJob(t, item)
	waitMessage(t, item, "the file "+dir+"/waitFor")
	ask(t, item, v1alpha1.OperationAbort)
	waitAborted(t, item, jobID, v1alpha1.DeployItemPhaseFailed)
	checkCalls(t, dir, "reconcile "+jobID, "abort "+jobID)
}

func abortSlowly(t *testing.T, namespace string) {
	t.Helper()
	dir := t.TempDir()
	item, jobID := startCall(t, newItem(namespace, "slow", probeType, probeConfig(dir, "blockUntil", "abortUntil")))
	ask(t, item, v1alpha1.OperationAbort)
	eventually(t, "the abort to be polled", func(context.Context) (string, error) {
		if got := calls(t, dir); len(got) < 5 {
			return fmt.Sprintf("calls %v", got), nil
		}
		return "", nil
	})
	if item = waitMessage(t, item, "the file "+dir+"/abortUntil"); item.Status.JobIDFinished == jobID {
		t.Errorf("the job ended before its abort: %s", describe(item))
	}
	touch(t, dir+"/abortUntil")
	waitAborted(t, item, jobID, v1alpha1.DeployItemPhaseFailed)
}

func abortInVain(t *testing.T, namespace string) {
	t.Helper()
	dir := t.TempDir()
	item, jobID := startCall(t, newItem(namespace, "failing", probeType, probeConfigWith(dir, map[string]any{
		"blockUntil": dir + "/blockUntil", "abortFails": true,
	})))
	ask(t, item, v1alpha1.OperationAbort)
	item = waitAborted(t, item, jobID, v1alpha1.DeployItemPhaseFailed)
	if message := item.Status.LastError.Message; !strings.Contains(message, "the configuration asks for it") {
		t.Errorf("expected the message to say what the plugin says, but found %q", message)
	}
}

func abortPlain(t *testing.T, namespace string) {
	t.Helper()
	item := newItem(namespace, "plain", mockType, fmt.Sprintf(mockConfig, `,"phase":"Progressing"`))
	create(t, item)
	jobID := setJob(t, item)
	waitFor(t, item, "in progress", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseProgressing })
	ask(t, item, v1alpha1.OperationAbort)
	waitAborted(t, item, jobID, v1alpha1.DeployItemPhaseFailed)
}

func TestAbortBeforeThePickUp(t *testing.T) {
	namespace, dir := newNamespace(t), t.TempDir()
	item := newItem(namespace, "item", probeType, probeConfig(dir))
	create(t, item)
	jobID := setJob(t, item)
	ask(t, item, v1alpha1.OperationAbort)

	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	waitAborted(t, item, jobID, v1alpha1.DeployItemPhaseFailed)
	checkCalls(t, dir)
}

func TestAbortInTheQueue(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe"), Config: writeConfig(t, oneWorker)})
	namespace, dir, queuedDir := newNamespace(t), t.TempDir(), t.TempDir()
	item, jobID := startCall(t, newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil")))
	queued := newItem(namespace, "queued", probeType, probeConfig(queuedDir))
	create(t, queued)
	queuedJob := setJob(t, queued)
	waitMessage(t, queued, "a free worker")

	ask(t, queued, v1alpha1.OperationAbort)
	waitAborted(t, queued, queuedJob, v1alpha1.DeployItemPhaseFailed)
	checkCalls(t, queuedDir)
	checkCalls(t, dir, "reconcile "+jobID)
	touch(t, dir+"/blockUntil")
	waitFinished(t, item, jobID)
	carryOutAgain(t, queued, v1alpha1.DeployItemPhaseSucceeded)
}

func TestAbortThatNeverEnds(t *testing.T) {
	config := "apiVersion: host.pergola.dev/v1alpha1\nkind: HostConfiguration\ntimeouts: {abort: 1s}\n"
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe"), Config: writeConfig(t, config)})
	namespace, dir := newNamespace(t), t.TempDir()
	item, jobID := startCall(t, newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil", "abortUntil")))

	ask(t, item, v1alpha1.OperationAbort)
	item = waitAborted(t, item, jobID, v1alpha1.DeployItemPhaseFailed)
	if message := item.Status.LastError.Message; !strings.Contains(message, "did not finish the abort in time") {
		t.Errorf("the message does not say that the deployer was too slow: %q", message)
	}
	checkUntouched(t, item)
}

func TestHostIsKilledInTheMiddleOfAnAbort(t *testing.T) {
	plugins := pluginDir(t, "probe")
	host := startReadyHost(t, testenv.HostOptions{PluginDir: plugins})
	namespace, dir := newNamespace(t), t.TempDir()
	item, jobID := startCall(t, newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil", "abortUntil")))
	ask(t, item, v1alpha1.OperationAbort)
	waitCalled(t, dir, "abort "+jobID)

	if err := host.Kill(); err != nil {
		t.Fatal(err)
	}
	touch(t, dir+"/abortUntil")
	startReadyHost(t, testenv.HostOptions{PluginDir: plugins})
	waitAborted(t, item, jobID, v1alpha1.DeployItemPhaseFailed)
	if got := slices.Compact(calls(t, dir)); !slices.Equal(got, []string{"reconcile " + jobID, "stopped " + jobID, "abort " + jobID}) {
		t.Errorf("expected nothing but aborts after the abort has begun, but found %v", got)
	}
}

func TestAbortWithoutAJob(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	before := carryOut(t, newItem(namespace, "item", probeType, probeConfig(dir)), v1alpha1.DeployItemPhaseSucceeded)

	ask(t, before, v1alpha1.OperationAbort)
	if event := waitEvent(t, before, "OperationAccepted"); !strings.Contains(event.Note, "nothing to do") {
		t.Errorf("expected an event that says that there is nothing to do, but found %q", event.Note)
	}
	carryOut(t, newItem(namespace, "last", probeType, probeConfig(t.TempDir())), v1alpha1.DeployItemPhaseSucceeded)

	after := read(t, before)
	if diff := cmp.Diff(before.Annotations, after.Annotations); diff != "" {
		t.Errorf("annotations (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(string(marshal(t, before.Status)), string(marshal(t, after.Status))); diff != "" {
		t.Errorf("status (-before +after):\n%s", diff)
	}
	checkCalls(t, dir, "reconcile ")
}

// waitAborted waits until the job is finished, and checks that it was aborted.
func waitAborted(t *testing.T, item *v1alpha1.DeployItem, jobID string, phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
	t.Helper()
	item = waitFinished(t, item, jobID)
	if item.Status.Phase != phase || item.Status.JobID != jobID || item.Status.LastError == nil || item.Status.LastError.Reason != "Aborted" {
		t.Errorf("expected phase %s and reason Aborted, but found %s", phase, describe(item))
	}
	if operation, asks := item.Annotations[v1alpha1.OperationAnnotation]; asks {
		t.Errorf("the item still asks for %q", operation)
	}
	return item
}
