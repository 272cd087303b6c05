package inspect

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The states of the job of an item.
const (
	jobNone   = "none"
	jobSet    = "set"     // before the pick-up
	jobQueued = "queued"  // waits for a worker
	jobActive = "running" // includes waits of the deployer
	jobDone   = "done"    // with any result
)

func jobState(item *v1alpha1.DeployItem) string {
	switch {
	case item.Status.JobID == "":
		return jobNone
	case contract.Finished(item):
		return jobDone
	case contract.IsQueued(item):
		return jobQueued
	case contract.IsUnderWay(item), runsElsewhere(&item.Status):
		return jobActive
	default:
		return jobSet
	}
}

// runsElsewhere reports whether a deployer outside of Pergola works on the job.
func runsElsewhere(status *v1alpha1.DeployItemStatus) bool {
	// Other deployers have no condition about the pick-up.
	working := status.Phase != "" && !status.Phase.IsFinal()
	return working && conditionOf(status, contract.ConditionPickedUp) == nil &&
		!status.LastReconcileTime.IsZero() && !status.LastReconcileTime.Before(status.JobIDGenerationTime)
}

// conditionOf returns the condition of a type; nil for none.
func conditionOf(status *v1alpha1.DeployItemStatus, conditionType v1alpha1.ConditionType) *v1alpha1.Condition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == conditionType {
			return &status.Conditions[i]
		}
	}
	return nil
}

// Message returns the reason for the wait of a running job, or for the failure of the last job; "" for none.
func Message(item *v1alpha1.DeployItem) string {
	status := &item.Status
	if unserved := contract.Unserved(item); unserved != "" {
		return unserved
	}
	switch jobState(item) {
	case jobNone:
		return "there was no job yet"
	case jobSet:
		return "the job is not picked up yet"
	case jobQueued, jobActive:
		return cmp.Or(contract.WaitingFor(item), errorText(status.LastError))
	}
	if status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		return errorText(status.LastError)
	}
	if ready := conditionOf(status, contract.ConditionReady); ready != nil && ready.Status != v1alpha1.ConditionTrue {
		return ready.Message
	}
	return ""
}

// notes returns short notes about an item besides the message: a pause, a spec without a job, the next try.
func notes(item *v1alpha1.DeployItem, now time.Time) []string {
	var all []string
	if isPaused(item) {
		all = append(all, "paused")
	}
	state := jobState(item)
	observed := state == jobNone || state == jobSet || item.Status.ObservedGeneration == item.Generation
	if !observed && item.DeletionTimestamp == nil {
		all = append(all, fmt.Sprintf("generation %d is not taken up yet", item.Generation))
	}
	if next, ok := contract.PlannedTry(item); ok && !isPaused(item) {
		all = append(all, fmt.Sprintf("try %d %s", next.Number, until(next.At, now)))
	}
	return all
}

// isPaused reports whether a host heeds a pause of an item. Beside a Landscaper none does.
func isPaused(item *v1alpha1.DeployItem) bool {
	return conditionOf(&item.Status, contract.ConditionPaused) != nil
}

// errorText formats an error as a line, without its codes; "" for none.
func errorText(e *v1alpha1.Error) string {
	if e == nil {
		return ""
	}
	return cmp.Or(e.Reason, e.Operation) + ": " + e.Message
}

// ShortType returns a type without Landscaper's group.
func ShortType(of v1alpha1.DeployItemType) string {
	return strings.TrimPrefix(string(of), v1alpha1.GroupName+"/")
}

// FullType returns a type, with Landscaper's group by default.
func FullType(text string) v1alpha1.DeployItemType {
	if !strings.Contains(text, "/") {
		text = v1alpha1.GroupName + "/" + text
	}
	return v1alpha1.DeployItemType(text)
}

// maxMessage bounds the characters of a message in narrow lists.
const maxMessage = 60

// Table returns items as a table. Columns of priority 1 are for wide lists with complete messages.
func Table(now time.Time, wide bool, items ...v1alpha1.DeployItem) *metav1.Table {
	table := &metav1.Table{}
	for _, name := range []string{
		"Name", "Type", "Target", "Phase", "Job", "Age", "Job ID", "Deployer", "Waiting for / last error",
	} {
		column := metav1.TableColumnDefinition{Name: name, Type: "string"}
		if name == "Job ID" || name == "Deployer" {
			column.Priority = 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, column)
	}
	for i := range items {
		item := &items[i]
		target, _ := contract.TargetOfItem(item)
		texts := notes(item, now)
		if text := Message(item); text != "" {
			texts = append(texts, text)
		}
		message := []rune(strings.Join(texts, "; "))
		if len(message) > maxMessage && !wide {
			message = append(message[:maxMessage-1], '…')
		}
		row := metav1.TableRow{Object: runtime.RawExtension{Object: item}}
		for _, cell := range []string{
			item.Name, ShortType(item.Spec.Type), target, phaseOf(item), jobState(item),
			Ago(item.CreationTimestamp.Time, now), item.Status.JobID, deployerOf(item), string(message),
		} {
			row.Cells = append(row.Cells, cmp.Or(text.Printable(cell), "-"))
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// phaseOf returns the phase, with a note about a pending deletion.
func phaseOf(item *v1alpha1.DeployItem) string {
	phase := string(item.Status.Phase)
	if item.DeletionTimestamp != nil && !item.Status.Phase.IsDeletion() {
		return strings.TrimSpace(phase + " (to be deleted)")
	}
	return phase
}

// deployerOf returns the deployer of the last job, such as "helm v1.2 of pergola-0"; "" for none.
func deployerOf(item *v1alpha1.DeployItem) string {
	d := item.Status.Deployer
	if d.Identity == "" {
		return strings.TrimSpace(d.Name + " " + d.Version)
	}
	return strings.TrimSpace(d.Name + " " + d.Version + " of " + d.Identity)
}

// Ago formats the time since at in few characters; "" for no time.
func Ago(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, now.Sub(at)))
}

// until formats the time until at in few characters.
func until(at, now time.Time) string {
	if !at.After(now) {
		return "now"
	}
	return "in " + duration.HumanDuration(at.Sub(now))
}

// WithoutSecrets returns an item without its configuration, including the last applied configuration.
func WithoutSecrets(item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	item = item.DeepCopy()
	item.SetGroupVersionKind(v1alpha1.DeployItemGVK)
	item.Spec.Config, item.ManagedFields = nil, nil
	delete(item.Annotations, corev1.LastAppliedConfigAnnotation)
	return item
}
