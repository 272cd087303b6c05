package e2e

import (
	"context"
	"fmt"
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
