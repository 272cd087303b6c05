package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// stopLimit is how long it may take until a plugin hears that its call is cancelled. It is a second; a loaded machine gets more.
const stopLimit = 5 * time.Second

// oneWorker is the configuration of a host that makes one call of a plugin at a time.
const oneWorker = "apiVersion: host.pergola.dev/v1alpha1\nkind: HostConfiguration\nworkers: 1\n"

// interrupt ends the job under way in one write, as a Landscaper does.
func interrupt(t *testing.T, item *v1alpha1.DeployItem, jobID string) *v1alpha1.DeployItem {
	t.Helper()
	now := v1alpha1.Now()
	return patchStatus(t, item, map[string]any{
		"jobID": jobID, "jobIDFinished": jobID, "phase": v1alpha1.DeployItemPhaseFailed,
		"lastError": v1alpha1.Error{
			Operation: "InterruptOperation", Reason: "InterruptOperation", Message: "operation was interrupted",
			LastTransitionTime: now, LastUpdateTime: now,
		},
	})
}

// checkUntouched checks that an item has not been written since it was read, after the host has carried out another one.
func checkUntouched(t *testing.T, before *v1alpha1.DeployItem) {
	t.Helper()
	carryOut(t, newItem(before.Namespace, "other-"+uuid.NewString()[:8], probeType, probeConfig(t.TempDir())), v1alpha1.DeployItemPhaseSucceeded)
	if after := read(t, before); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("somebody has written the item:\nbefore %s\nafter  %s", marshal(t, before.Status), marshal(t, after.Status))
	}
}

// checkInterruption checks that the host lets an interruption stand: it changes nothing but its own conditions, which tell of it.
func checkInterruption(t *testing.T, interrupted *v1alpha1.DeployItem) {
	t.Helper()
	settled := waitFor(t, interrupted, "stalled", func(i *v1alpha1.DeployItem) bool { return conditionOf(i, "Stalled").Status == v1alpha1.ConditionTrue })
	if stalled := conditionOf(settled, "Stalled"); stalled.Message != interrupted.Status.LastError.Message || conditionOf(settled, "Reconciling").Type != "" {
		t.Errorf("the conditions do not tell of the interruption: %s", marshal(t, settled.Status.Conditions))
	}
	checkUntouched(t, settled)
	settled.Status.Conditions = interrupted.Status.Conditions
	if diff := cmp.Diff(interrupted.Status, settled.Status); diff != "" {
		t.Errorf("the host has changed what the interruption says (-before +after):\n%s", diff)
	}
}

func TestInterruptedCall(t *testing.T) {
	host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item, jobID := startCall(t, newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil")))

	start := time.Now()
	interrupted := interrupt(t, item, jobID)
	span := waitStopped(t, dir, jobID).Sub(start)
	t.Logf("the plugin heard of the interruption after %v", span)
	if span > stopLimit {
		t.Errorf("expected the plugin to hear of the interruption within a second, but it took %v", span)
	}
	waitLogged(t, host, "cancelled the plugin's call", namespace+"/item")
	checkInterruption(t, interrupted)
	checkCalls(t, dir, "reconcile "+jobID, "stopped "+jobID)

	touch(t, dir+"/blockUntil")
	carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
}

func TestInterruptedWait(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item := newItem(namespace, "item", probeType, probeConfig(dir, "waitFor"))
	create(t, item)
	jobID := setJob(t, item)
	waitMessage(t, item, "the file "+dir+"/waitFor")

	interrupted := interrupt(t, item, jobID)
	touch(t, dir+"/waitFor") // wakes the host
	checkInterruption(t, interrupted)
	checkCalls(t, dir, "reconcile "+jobID)
}

func TestAnotherJobInTheMiddleOfACall(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	// The first job meets an error before its call, of which nothing may be left in the second one.
	item := newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil"))
	item.Spec.Context = "late"
	create(t, item)
	first := setJob(t, item)
	waitFor(t, item, "in progress with an error", func(i *v1alpha1.DeployItem) bool { return len(i.Status.LastErrors) > 0 })
	createContext(t, namespace, "late")
	waitCalled(t, dir, "reconcile "+first)
	before := waitTheSecondAfter(t, item)

	second := uuid.NewString()
	patchStatus(t, item, map[string]any{"jobID": second})
	waitCalled(t, dir, "reconcile "+second)

	if item = read(t, item); len(item.Status.LastErrors) != 0 || item.Status.FirstError != nil || item.Status.LastError != nil {
		t.Errorf("errors of the first job are left in the second: %s", marshal(t, item.Status))
	}
	if times := item.Status.TransitionTimes; times == nil || !before.Status.TransitionTimes.InitTime.Before(times.InitTime) {
		t.Errorf("the second job has no pick-up time of its own: before %s, after %s",
			marshal(t, before.Status.TransitionTimes), marshal(t, item.Status.TransitionTimes))
	}
	touch(t, dir+"/blockUntil")
	item = waitFinished(t, item, second)
	if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || item.Status.JobID != second {
		t.Errorf("expected the second job to succeed, but found %s", describe(item))
	}
	checkCalls(t, dir, "reconcile "+first, "stopped "+first, "reconcile "+second)
}

func TestAnotherJobInTheMiddleOfADeletion(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item, first := startDeletionCall(t, newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil")))
	before := waitTheSecondAfter(t, item)

	second := uuid.NewString()
	patchStatus(t, item, map[string]any{"jobID": second})
	waitCalled(t, dir, "delete "+second)

	if item = read(t, item); !item.Status.Phase.IsDeletion() || !before.Status.TransitionTimes.InitTime.Before(item.Status.TransitionTimes.InitTime) {
		t.Errorf("the second job was not picked up as a deletion of its own: %s", marshal(t, item.Status))
	}
	touch(t, dir+"/blockUntil")
	waitGone(t, item)
	checkCalls(t, dir, "reconcile ", "delete "+first, "stopped "+first, "delete "+second)
}

func TestDeletionInTheMiddleOfACall(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item, jobID := startCall(t, newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil")))

	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	waitCalled(t, dir, "delete "+jobID)
	touch(t, dir+"/blockUntil")
	waitGone(t, item)
	checkCalls(t, dir, "reconcile "+jobID, "stopped "+jobID, "delete "+jobID)
}

func TestLabelInTheMiddleOfACall(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item, jobID := startCall(t, newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil")))

	for i := range 3 {
		mark := auditMark(t)
		patchMetadata(t, item, map[string]any{"labels": map[string]any{"touched": fmt.Sprint(i)}})
		waitSeen(t, mark, item)
	}
	touch(t, dir+"/blockUntil")
	item = waitFinished(t, item, jobID)

	if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || item.Labels["touched"] != "2" {
		t.Errorf("expected success, and the label to stay, but found labels %v and %s", item.Labels, describe(item))
	}
	checkUntouched(t, item)
	checkCalls(t, dir, "reconcile "+jobID)
}

func TestPluginThatDoesNotListen(t *testing.T) {
	host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe"), Config: writeConfig(t, oneWorker)})
	namespace, dir := newNamespace(t), t.TempDir()
	item, first := startCall(t, newItem(namespace, "item", probeType, probeConfigWith(dir, map[string]any{
		"blockUntil": dir + "/blockUntil", "stubborn": true,
	})))

	interrupted := interrupt(t, item, first)
	waitLogged(t, host, "cancelled the plugin's call", namespace+"/item")
	checkInterruption(t, interrupted) // another item gets the only worker

	second := setJob(t, item)
	waitFor(t, item, "picked up", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseInit })
	checkCalls(t, dir, "reconcile "+first) // the first call is still at work
	touch(t, dir+"/blockUntil")
	if item = waitFinished(t, item, second); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("expected success, but found %s", describe(item))
	}
	checkCalls(t, dir, "reconcile "+first, "reconcile "+second)
}

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

// waitTheSecondAfter waits until a pick-up would get another time than the one that the item has had.
func waitTheSecondAfter(t *testing.T, item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	t.Helper()
	return waitFor(t, item, "picked up some time ago", func(i *v1alpha1.DeployItem) bool {
		times := i.Status.TransitionTimes
		return times != nil && !times.InitTime.IsZero() && time.Since(times.InitTime.Time) > 0
	})
}

// waitLogged waits for a line in the host's log that holds all texts.
func waitLogged(t *testing.T, host *testenv.Host, texts ...string) {
	t.Helper()
	eventually(t, "a line in the host's log", func(context.Context) (string, error) {
		for line := range strings.Lines(host.Log()) {
			holds := true
			for _, text := range texts {
				holds = holds && strings.Contains(line, text)
			}
			if holds {
				return "", nil
			}
		}
		return fmt.Sprintf("none holds %q", texts), nil
	})
}
