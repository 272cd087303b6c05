package inspect

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pergola-deploy/pergola/host/internal/command/terminal"
	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The states of the job of an item.
const (
	jobNone   = "none"    // there was never a job
	jobSet    = "set"     // nobody has picked it up yet
	jobQueued = "queued"  // it was picked up and waits for a worker
	jobActive = "running" // a deployer works on it, or waits for something
	jobDone   = "done"    // it is finished, with whatever result
)

func jobState(item *v1alpha1.DeployItem) string {
	switch {
	case item.Status.JobID == "":
		return jobNone
	case contract.Finished(item):
		return jobDone
	case contract.IsQueued(item):
		return jobQueued
	case contract.IsUnderWay(item), heldByOther(&item.Status):
		return jobActive
	default:
		return jobSet
	}
}

// heldByOther reports whether a deployer that is none of Pergola's works on the job: it names the job in no condition.
func heldByOther(status *v1alpha1.DeployItemStatus) bool {
	working := status.Phase != "" && !status.Phase.IsFinal()
	return working && conditionOf(status, contract.ConditionPickedUp) == nil &&
		!status.LastReconcileTime.IsZero() && !status.LastReconcileTime.Before(status.JobIDGenerationTime)
}

// conditionOf returns a condition; nil if there is none of the type.
func conditionOf(status *v1alpha1.DeployItemStatus, conditionType v1alpha1.ConditionType) *v1alpha1.Condition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == conditionType {
			return &status.Conditions[i]
		}
	}
	return nil
}

// Message is what is most worth knowing about an item: what a running job waits for, or why the last one failed; empty
// if all is well.
func Message(item *v1alpha1.DeployItem) string {
	status := &item.Status
	if unserved := contract.Unserved(item); unserved != "" {
		return unserved
	}
	switch jobState(item) {
	case jobNone:
		return "there was no job yet"
	case jobSet:
		return "nobody has picked up the job yet"
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

// errorText writes an error as a line, without its codes; empty for none.
func errorText(e *v1alpha1.Error) string {
	if e == nil {
		return ""
	}
	return cmp.Or(e.Reason, e.Operation) + ": " + e.Message
}

// ShortType is a type without the group that nearly all have.
func ShortType(of v1alpha1.DeployItemType) string {
	return strings.TrimPrefix(string(of), v1alpha1.GroupName+"/")
}

// FullType is the type that somebody means who may have left out that group.
func FullType(text string) v1alpha1.DeployItemType {
	if !strings.Contains(text, "/") {
		text = v1alpha1.GroupName + "/" + text
	}
	return v1alpha1.DeployItemType(text)
}

// maxMessage is how many characters of a message a list shows that is not wide.
const maxMessage = 60

// Table returns items as a table. Columns of priority 1 are for wide lists, in which no message is cut.
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
		message := []rune(Message(item))
		if len(message) > maxMessage && !wide {
			message = append(message[:maxMessage-1], '…')
		}
		row := metav1.TableRow{Object: runtime.RawExtension{Object: item}}
		for _, cell := range []string{
			item.Name, ShortType(item.Spec.Type), target, phaseOf(item), jobState(item),
			Ago(item.CreationTimestamp.Time, now), item.Status.JobID, deployerOf(item), string(message),
		} {
			row.Cells = append(row.Cells, cmp.Or(terminal.Printable(cell), "-"))
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// phaseOf is the phase, and what it does not tell: that the item is to be deleted.
func phaseOf(item *v1alpha1.DeployItem) string {
	phase := string(item.Status.Phase)
	if item.DeletionTimestamp != nil && !item.Status.Phase.IsDeletion() {
		return strings.TrimSpace(phase + " (to be deleted)")
	}
	return phase
}

// deployerOf is who has picked up the last job, such as "helm v1.2 of pergola-0"; empty if nobody has ever.
func deployerOf(item *v1alpha1.DeployItem) string {
	d := item.Status.Deployer
	if d.Identity == "" {
		return strings.TrimSpace(d.Name + " " + d.Version)
	}
	return strings.TrimSpace(d.Name + " " + d.Version + " of " + d.Identity)
}

// Ago is how long ago something was, in few characters; empty for no time.
func Ago(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, now.Sub(at)))
}

// WithoutSecrets returns an item without what may hold secrets: its configuration, also as it was applied last.
func WithoutSecrets(item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	item = item.DeepCopy()
	item.SetGroupVersionKind(v1alpha1.DeployItemGVK)
	item.Spec.Config, item.ManagedFields = nil, nil
	delete(item.Annotations, corev1.LastAppliedConfigAnnotation)
	return item
}
