package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// conditionOf returns a condition of an item; an empty one if it has none.
func conditionOf(item *v1alpha1.DeployItem, conditionType v1alpha1.ConditionType) v1alpha1.Condition {
	for _, c := range item.Status.Conditions {
		if c.Type == conditionType {
			return c
		}
	}
	return v1alpha1.Condition{}
}

// waitMessage waits until the item says that this is being done, or waited for.
func waitMessage(t *testing.T, item *v1alpha1.DeployItem, message string) *v1alpha1.DeployItem {
	t.Helper()
	return waitFor(t, item, fmt.Sprintf("saying %q", message), func(i *v1alpha1.DeployItem) bool {
		return conditionOf(i, "Reconciling").Message == message
	})
}

// outlook is what an item tells those who know nothing of deploy items: conditions, with "" for one that is absent, and what kstatus
// makes of them.
type outlook struct {
	ready, reconciling, stalled v1alpha1.ConditionStatus
	kstatus                     status.Status
}

// checkOutlook checks the outlook of an item, and returns the message of kstatus.
func checkOutlook(t *testing.T, item *v1alpha1.DeployItem, want outlook) string {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.DeployItemGVK)
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(item), object); err != nil {
		t.Fatal(err)
	}
	if object.GetResourceVersion() != item.ResourceVersion {
		t.Fatalf("the item has changed meanwhile: %s", describe(read(t, item)))
	}
	result, err := status.Compute(object)
	if err != nil {
		t.Fatal(err)
	}
	got := outlook{
		conditionOf(item, "Ready").Status, conditionOf(item, "Reconciling").Status, conditionOf(item, "Stalled").Status, result.Status,
	}
	if got != want {
		t.Errorf("expected %+v, but found %+v: %s", want, got, marshal(t, item.Status.Conditions))
	}
	return result.Message
}

func TestConditions(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe", "mock")})
	namespace, dir := newNamespace(t), t.TempDir()
	item := newItem(namespace, "item", probeType, probeConfig(dir, "waitFor"))
	create(t, item)

	first := setJob(t, item)
	item = waitMessage(t, item, "the file "+dir+"/waitFor")
	message := checkOutlook(t, item, outlook{ready: "Unknown", reconciling: "True", kstatus: status.InProgressStatus})
	if message != "the file "+dir+"/waitFor" {
		t.Errorf("kstatus does not say what the job waits for: %q", message)
	}
	touch(t, dir+"/waitFor")
	item = waitFinished(t, item, first)
	checkOutlook(t, item, outlook{ready: "True", kstatus: status.CurrentStatus})

	edit(t, item, func() {
		item.Spec.Config.Raw = []byte(`{"apiVersion":"test.pergola.dev/v1","kind":"Probe","unknown":true}`)
	})
	item = carryOutAgain(t, item, v1alpha1.DeployItemPhaseFailed)
	message = checkOutlook(t, item, outlook{ready: "False", stalled: "True", kstatus: status.FailedStatus})
	if !strings.Contains(message, "spec.config") || !strings.Contains(message, `"unknown"`) {
		t.Errorf("kstatus does not say what is wrong: %q", message)
	}
	if stalled := conditionOf(item, "Stalled"); stalled.Reason != item.Status.LastError.Reason {
		t.Errorf("expected the reason of the error, %s, but found %s", item.Status.LastError.Reason, stalled.Reason)
	}

	// The next job leaves nothing of the failure.
	remove(t, dir+"/waitFor")
	edit(t, item, func() { item.Spec.Config.Raw = []byte(probeConfig(dir, "waitFor")) })
	last := setJob(t, item)
	item = waitMessage(t, item, "the file "+dir+"/waitFor")
	checkOutlook(t, item, outlook{ready: "Unknown", reconciling: "True", kstatus: status.InProgressStatus})
	touch(t, dir+"/waitFor")
	checkOutlook(t, waitFinished(t, item, last), outlook{ready: "True", kstatus: status.CurrentStatus})
}

// talkative is the configuration of a probe that reports progress and blocks.
func talkative(dir string) string {
	return probeConfigWith(dir, map[string]any{
		"blockUntil": dir + "/blockUntil", "progress": map[string]any{"step": "Upgrading", "message": "two of three are new"},
	})
}

func TestProgressInTheMiddleOfACall(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item := newItem(namespace, "item", probeType, talkative(dir))
	item.Spec.Timeout = "none"
	item, jobID := startCall(t, item)

	item = waitMessage(t, item, "two of three are new")
	if reason := conditionOf(item, "Reconciling").Reason; reason != "Upgrading" {
		t.Errorf("expected the step as the reason, but found %q", reason)
	}
	checkOutlook(t, item, outlook{ready: "Unknown", reconciling: "True", kstatus: status.InProgressStatus})
	checkCalls(t, dir, "reconcile "+jobID)
	touch(t, dir+"/blockUntil")
	item = waitFinished(t, item, jobID)
	checkOutlook(t, item, outlook{ready: "True", kstatus: status.CurrentStatus})
	checkCalls(t, dir, "reconcile "+jobID)
}

func TestTimeout(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace := newNamespace(t)
	for name, tc := range map[string]struct {
		config  func(dir string) string
		mention func(dir string) string
	}{
		"of a call": {config: talkative, mention: func(string) string { return "two of three are new" }},
		"of a wait": {
			config:  func(dir string) string { return probeConfig(dir, "waitFor") },
			mention: func(dir string) string { return dir + "/waitFor" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			item := newItem(namespace, strings.ReplaceAll(name, " ", "-"), probeType, tc.config(dir))
			item.Spec.Timeout = "2s"
			item = carryOut(t, item, v1alpha1.DeployItemPhaseFailed)

			lastError := item.Status.LastError
			if lastError == nil || lastError.Reason != "ProgressingTimeout" || len(lastError.Codes) != 1 || lastError.Codes[0] != v1alpha1.ErrorTimeout {
				t.Fatalf("expected a timeout, but found %s", marshal(t, lastError))
			}
			if !strings.Contains(lastError.Message, tc.mention(dir)) {
				t.Errorf("the message does not say what the job was waiting for: %q", lastError.Message)
			}
			times := item.Status.TransitionTimes
			if took := times.FinishedTime.Sub(times.InitTime.Time); took.Seconds() < 2 {
				t.Errorf("the job had less time than its timeout allows: %v", took)
			}
			checkOutlook(t, item, outlook{ready: "False", stalled: "True", kstatus: status.FailedStatus})
			checkUntouched(t, item)
		})
	}
}

// eventsOf are the events about an item.
func eventsOf(ctx context.Context, item *v1alpha1.DeployItem) ([]eventsv1.Event, error) {
	list := &eventsv1.EventList{}
	if err := admin.List(ctx, list, client.InNamespace(item.Namespace)); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(event eventsv1.Event) bool {
		return event.Regarding.Name != item.Name || event.Regarding.Kind != "DeployItem"
	}), nil
}

// reasons are the reasons of events, and how often each of them has come.
func reasons(events []eventsv1.Event) map[string]int {
	counted := map[string]int{}
	for _, event := range events {
		counted[event.Reason]++
		if event.Series != nil {
			counted[event.Reason] += int(event.Series.Count) - 1
		}
	}
	return counted
}

// waitEvent waits for an event about an item.
func waitEvent(t *testing.T, item *v1alpha1.DeployItem, reason string) eventsv1.Event {
	t.Helper()
	var found eventsv1.Event
	eventually(t, "the event "+reason, func(ctx context.Context) (string, error) {
		events, err := eventsOf(ctx, item)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(events, func(event eventsv1.Event) bool { return event.Reason == reason })
		if i < 0 {
			return fmt.Sprintf("events %v", reasons(events)), nil
		}
		found = events[i]
		return "", nil
	})
	return found
}

// checkEvents checks how often the events of an item have come, by their reasons.
func checkEvents(t *testing.T, item *v1alpha1.DeployItem, want map[string]int) {
	t.Helper()
	events, err := eventsOf(t.Context(), item)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, reasons(events), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("events of item %s (-want +got):\n%s", item.Name, diff)
	}
}

func TestEventsOfJobs(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "mock")})
	namespace := newNamespace(t)
	good := carryOut(t, newItem(namespace, "good", mockType, mockSucceeds), v1alpha1.DeployItemPhaseSucceeded)
	bad := carryOut(t, newItem(namespace, "bad", mockType, mockFails), v1alpha1.DeployItemPhaseFailed)

	for name, tc := range map[string]struct {
		item            *v1alpha1.DeployItem
		reason, mention string
		eventType       string
	}{
		"pick-up":            {good, "PickedUp", good.Status.JobID, corev1.EventTypeNormal},
		"success":            {good, "Succeeded", good.Status.JobID, corev1.EventTypeNormal},
		"pick-up of failure": {bad, "PickedUp", bad.Status.JobID, corev1.EventTypeNormal},
		"failure":            {bad, bad.Status.LastError.Reason, bad.Status.LastError.Message, corev1.EventTypeWarning},
	} {
		event := waitEvent(t, tc.item, tc.reason)
		if event.Type != tc.eventType || !strings.Contains(event.Note, tc.mention) || event.Regarding.UID != tc.item.UID {
			t.Errorf("event of the %s: %s %q about %s", name, event.Type, event.Note, event.Regarding.UID)
		}
	}
	checkEvents(t, good, map[string]int{"PickedUp": 1, "Succeeded": 1})
	checkEvents(t, bad, map[string]int{"PickedUp": 1, bad.Status.LastError.Reason: 1})
}

func TestFloodOfEvents(t *testing.T) {
	host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace := newNamespace(t)
	item := newItem(namespace, "item", probeType, probeConfigWith(t.TempDir(), map[string]any{"events": 200}))
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)

	waitEvent(t, item, "Succeeded") // it is the last one
	waitEvent(t, item, "TooManyEvents")
	events, err := eventsOf(t.Context(), item)
	if err != nil {
		t.Fatal(err)
	}
	if found := reasons(events); found["Probed0"] != 1 || found["TooManyEvents"] != 1 || len(events) > 25 {
		t.Errorf("expected the first events, one that says that there are more, and no more than 25, but found %d: %v", len(events), found)
	}
	t.Logf("%d events", len(events))
	waitLogged(t, host, "events of the plugin were dropped", `"count":181`)
}

// probeConfigWith is the configuration of a probe that leaves its trace in the directory, with more fields.
func probeConfigWith(dir string, fields map[string]any) string {
	config := map[string]any{"apiVersion": "test.pergola.dev/v1", "kind": "Probe", "trace": dir + "/trace"}
	maps.Copy(config, fields)
	out, err := json.Marshal(config)
	if err != nil {
		panic(err) //nolint:forbidigo // texts, numbers and booleans marshal
	}
	return string(out)
}

// traceDir is the directory in which a probe leaves the trace of an item.
func traceDir(t *testing.T, item *v1alpha1.DeployItem) string {
	t.Helper()
	var config struct{ Trace string }
	if err := json.Unmarshal(item.Spec.Config.Raw, &config); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(config.Trace, "/trace")
}

// calls are what a probe was called for: operation and job, in order.
func calls(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for _, line := range lines(t, dir+"/trace") {
		if fields := strings.Fields(line); len(fields) > 1 {
			found = append(found, fields[0]+" "+fields[1])
		}
	}
	return found
}

// checkCalls checks what a probe was called for. An expected call may leave the job out.
func checkCalls(t *testing.T, dir string, want ...string) {
	t.Helper()
	got := calls(t, dir)
	same := len(got) == len(want)
	for i := 0; same && i < len(want); i++ {
		same = strings.HasPrefix(got[i], want[i])
	}
	if !same {
		t.Errorf("calls of the plugin:\nwant %q\ngot  %q", want, got)
	}
}

// waitCalled waits until a probe is called.
func waitCalled(t *testing.T, dir, call string) {
	t.Helper()
	eventually(t, "the plugin to be called", func(context.Context) (string, error) {
		return missing(lines(t, dir+"/trace"), call), nil
	})
}

// waitStopped waits until a probe's call for a job is stopped, and returns when it was.
func waitStopped(t *testing.T, dir, jobID string) time.Time {
	t.Helper()
	waitCalled(t, dir, "stopped "+jobID)
	for _, line := range lines(t, dir+"/trace") {
		if fields := strings.Fields(line); len(fields) == 4 && fields[1] == jobID {
			at, err := time.Parse(time.RFC3339Nano, fields[3])
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
	}
	t.Fatal("the trace does not say when")
	return time.Time{}
}

// startCall creates the item of a probe, sets a job, and waits until the probe is called.
func startCall(t *testing.T, item *v1alpha1.DeployItem) (fresh *v1alpha1.DeployItem, jobID string) {
	t.Helper()
	create(t, item)
	jobID = setJob(t, item)
	waitCalled(t, traceDir(t, item), "reconcile "+jobID)
	return read(t, item), jobID
}

// startDeletionCall creates the item of a probe that blocks, and deletes it once it is deployed. The call for that is blocked.
func startDeletionCall(t *testing.T, item *v1alpha1.DeployItem) (fresh *v1alpha1.DeployItem, jobID string) {
	t.Helper()
	dir := traceDir(t, item)
	touch(t, dir+"/blockUntil")
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
	remove(t, dir+"/blockUntil")
	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	jobID = setJob(t, item)
	waitCalled(t, dir, "delete "+jobID)
	return read(t, item), jobID
}
