package inspect

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Message is what is most worth knowing about an item: what a job under way waits for, why the last one failed, or what else there is to be
// known; empty if all is well.
func Message(item *v1alpha1.DeployItem) string {
	status := &item.Status
	if unserved := contract.Unserved(item); unserved != "" {
		return unserved
	}
	switch stateOf(item) {
	case JobNone:
		return "there was no job yet"
	case JobSet:
		return "nobody has picked up the job yet"
	case JobQueued, JobUnderWay:
		if waitingFor := contract.WaitingFor(item); waitingFor != "" || status.LastError == nil {
			return waitingFor
		}
		return errorText(status.LastError)
	default:
	}
	ready := conditionOf(status, contract.ConditionReady)
	switch {
	case status.Phase != v1alpha1.DeployItemPhaseSucceeded && status.LastError != nil:
		return errorText(status.LastError)
	case status.Phase == v1alpha1.DeployItemPhaseSucceeded && ready != nil && ready.Status != v1alpha1.ConditionTrue:
		return ready.Message
	default:
		return ""
	}
}

// errorText writes an error as a line, without its codes.
func errorText(e *v1alpha1.Error) string {
	return cmp.Or(e.Reason, e.Operation) + ": " + e.Message
}

// ShortType is a type without the group that nearly all have.
func ShortType(of v1alpha1.DeployItemType) string {
	return strings.TrimPrefix(string(of), v1alpha1.GroupName+"/")
}

// FullType is the type that somebody means who may have left out that group.
func FullType(text string) v1alpha1.DeployItemType {
	if strings.Contains(text, "/") {
		return v1alpha1.DeployItemType(text)
	}
	return v1alpha1.DeployItemType(v1alpha1.GroupName + "/" + text)
}

// maxMessage is how many characters of a message a list shows that is not wide.
const maxMessage = 60

// Table returns items as a table. Columns of priority 1 are for wide lists, in which no message is cut.
func Table(now time.Time, wide bool, items ...v1alpha1.DeployItem) *metav1.Table {
	table := &metav1.Table{}
	for _, name := range []string{"Name", "Type", "Target", "Phase", "Job", "Age", "Job ID", "Deployer", "Waiting for / last error"} {
		column := metav1.TableColumnDefinition{Name: name, Type: "string"}
		if name == "Job ID" || name == "Deployer" {
			column.Priority = 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, column)
	}
	for i := range items {
		item := &items[i]
		target := ""
		if item.Spec.Target != nil {
			target = item.Spec.Target.Name
		}
		message := []rune(Message(item))
		if len(message) > maxMessage && !wide {
			message = append(message[:maxMessage-1], '…')
		}
		row := metav1.TableRow{Object: runtime.RawExtension{Object: item}}
		for _, cell := range []string{
			item.Name, ShortType(item.Spec.Type), target, phaseOf(item), string(stateOf(item)), Ago(item.CreationTimestamp.Time, now),
			item.Status.JobID, deployerOf(item), string(message),
		} {
			row.Cells = append(row.Cells, cmp.Or(Printable(cell), "-"))
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
	return strings.TrimSpace(d.Name+" "+d.Version) + prefixed(" of ", d.Identity)
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
