package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// What somebody else does to an item.

func deleteObject(t *testing.T, object client.Object) {
	t.Helper()
	if err := admin.Delete(t.Context(), object); err != nil {
		t.Fatalf("delete %T: %v", object, err)
	}
}

// patchStatus changes fields of the status, and returns the item as it is then.
func patchStatus(t *testing.T, item *v1alpha1.DeployItem, fields map[string]any) *v1alpha1.DeployItem {
	t.Helper()
	patched := item.DeepCopy()
	patch := client.RawPatch(types.MergePatchType, marshal(t, map[string]any{"status": fields}))
	if err := admin.Status().Patch(t.Context(), patched, patch); err != nil {
		t.Fatalf("patch status: %v", err)
	}
	return patched
}

func patchMetadata(t *testing.T, item *v1alpha1.DeployItem, fields map[string]any) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, marshal(t, map[string]any{"metadata": fields}))
	if err := admin.Patch(t.Context(), item.DeepCopy(), patch); err != nil {
		t.Fatalf("patch metadata: %v", err)
	}
}

// ask asks for an operation on an item.
func ask(t *testing.T, item *v1alpha1.DeployItem, operation string) {
	t.Helper()
	patchMetadata(t, item, object{"annotations": object{v1alpha1.OperationAnnotation: operation}})
}

// interrupt ends the job under way in one write, as a Landscaper does.
func interrupt(t *testing.T, item *v1alpha1.DeployItem, jobID string) *v1alpha1.DeployItem {
	t.Helper()
	now := v1alpha1.Now()
	return patchStatus(t, item, map[string]any{
		"jobID": jobID, "jobIDFinished": jobID, "phase": failed,
		"lastError": v1alpha1.Error{
			Operation: "InterruptOperation", Reason: "InterruptOperation", Message: "operation was interrupted",
			LastTransitionTime: now, LastUpdateTime: now,
		},
	})
}

// start creates an item and sets a job, and returns the item with it.
func start(t *testing.T, item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	t.Helper()
	create(t, item)
	setJob(t, item)
	return read(t, item)
}

// deleteItem deletes an item as a Landscaper does, with a job, and waits until it is gone.
func deleteItem(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	setJob(t, item)
	waitGone(t, item)
}

// What becomes of an item.

func waitGone(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	eventually(t, "item "+item.Name+" to be gone", func(ctx context.Context) (string, error) {
		fresh := &v1alpha1.DeployItem{}
		err := admin.Get(ctx, client.ObjectKeyFromObject(item), fresh)
		if apierrors.IsNotFound(err) || err == nil && fresh.UID != item.UID {
			return "", nil
		}
		return describe(fresh), err
	})
}

// waitPhase waits until the job of an item that start has returned is finished, and checks the phase that it has
// come to.
func waitPhase(t *testing.T, item *v1alpha1.DeployItem, phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
	t.Helper()
	finished := waitFinished(t, item, item.Status.JobID)
	if finished.Status.Phase != phase {
		t.Fatalf("expected phase %s, but found %s", phase, describe(finished))
	}
	return finished
}

// waitFinishedAfter waits until another job than the one before is finished, and no operation asked for, and
// returns the item.
func waitFinishedAfter(t *testing.T, item *v1alpha1.DeployItem, before string) *v1alpha1.DeployItem {
	t.Helper()
	return waitFor(t, item, "finished with another job", func(i *v1alpha1.DeployItem) bool {
		return i.Status.JobID != before && i.Status.JobIDFinished == i.Status.JobID &&
			i.Annotations[v1alpha1.OperationAnnotation] == ""
	})
}

// waitLastError waits until the last error of an item says something.
func waitLastError(t *testing.T, item *v1alpha1.DeployItem, text string) *v1alpha1.DeployItem {
	t.Helper()
	return waitFor(t, item, fmt.Sprintf("with an error that says %q", text), func(i *v1alpha1.DeployItem) bool {
		return i.Status.LastError != nil && strings.Contains(i.Status.LastError.Message, text)
	})
}

// waitMessage waits until the item says that this is being done, or waited for.
func waitMessage(t *testing.T, item *v1alpha1.DeployItem, message string) *v1alpha1.DeployItem {
	t.Helper()
	return waitFor(t, item, fmt.Sprintf("saying %q", message), func(i *v1alpha1.DeployItem) bool {
		return conditionOf(i, "Reconciling").Message == message
	})
}

// conditionOf returns a condition of an item; an empty one if it has none.
func conditionOf(item *v1alpha1.DeployItem, conditionType v1alpha1.ConditionType) v1alpha1.Condition {
	for _, c := range item.Status.Conditions {
		if c.Type == conditionType {
			return c
		}
	}
	return v1alpha1.Condition{}
}

func exports(t *testing.T, item *v1alpha1.DeployItem) map[string]any {
	t.Helper()
	values, err := testenv.Exports(t.Context(), admin, item)
	if err != nil {
		t.Fatal(err)
	}
	return values
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
